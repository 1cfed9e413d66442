-- Compare and re-arm.
-- KEYS: records    ARGV: for each its owner and its ttl
local answers = {}
for at, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[2 * at - 1] then
    answers[at] = redis.call('PEXPIRE', key, ARGV[2 * at])
  else
    answers[at] = 0
  end
end
return answers
