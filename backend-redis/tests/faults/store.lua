-- Invariant: what was written last was written under the highest token that was ever shown.
-- KEYS: the highest token    ARGV: a token (below 2^53, so exact as a number)
-- Answers 1 written, 0 refused.
if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or '0') then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1])
return 1
