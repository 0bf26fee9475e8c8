"""What the batch routes refuse, beside the errors of the whole service."""

from __future__ import annotations

from workers.errors import InputInvalid, ServingError


class BatchUnavailable(ServingError):
    """The queue or the files of jobs cannot be reached now; live speech goes on without them."""

    code = "batch_unavailable"
    status = 503


class JobNotFound(InputInvalid):
    """There is no such job, or it is somebody else's: the answer is the same."""

    code = "job_not_found"
    status = 404


class JobConflict(InputInvalid):
    """The job is not in a state in which this can be done."""

    code = "job_state_conflict"
    status = 409


class StorageFull(ServingError):
    """There is no room for another file."""

    code = "storage_full"
    status = 507


class UploadNotFound(InputInvalid):
    """There is no such upload, or it is somebody else's."""

    code = "upload_not_found"
    status = 404


class UploadExpired(InputInvalid):
    """The upload was not continued in time."""

    code = "upload_expired"
    status = 410


class UploadBusy(InputInvalid):
    """Another request is writing to the upload."""

    code = "upload_locked"
    status = 423


class UploadIncomplete(InputInvalid):
    """The upload has not all its bytes yet."""

    code = "upload_incomplete"
    status = 409


class OffsetConflict(InputInvalid):
    """The bytes do not follow those that are there."""

    code = "offset_conflict"
    status = 409


class ChecksumMismatch(InputInvalid):
    """The bytes are not those that were sent; the status is the tus protocol's own."""

    code = "checksum_mismatch"
    status = 460


class WrongType(InputInvalid):
    """The body is not of the type that the route takes."""

    code = "unsupported_media_type"
    status = 415


class WrongVersion(InputInvalid):
    """The request speaks another version of the tus protocol."""

    code = "unsupported_version"
    status = 412
