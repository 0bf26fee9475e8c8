-- ARGV: now, jobs. What earlier versions stored has no indexes yet.
for number = 2, #ARGV do index(ARGV[number]) end
return 1
