"""Embedding on many hosts: batches of texts through Redis and the spool, vectors back the same way.

It has streams of its own beside the queue of jobs, because a batch is no job: whoever hands it in waits for it, keeps
it until it is answered, and can hand it in again, so that nothing but the vectors has to outlive anybody. A batch is
named by its texts: what was embedded for a producer that died is found by the one that follows it.
"""
