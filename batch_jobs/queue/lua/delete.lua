-- ARGV: now, job.
forget(ARGV[2])
return 1
