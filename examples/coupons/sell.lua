-- Writes the stock back and counts one sale. Invariant: a write with a token below one that was
-- seen before changes nothing, so a holder that woke up too late sells nothing.
-- KEYS: stock, sold, highest token. ARGV: the new stock, the token (0: write without a lock).
local token = tonumber(ARGV[2])
if token > 0 then
  if token < tonumber(redis.call('GET', KEYS[3]) or '0') then
    return 0
  end
  redis.call('SET', KEYS[3], ARGV[2])
end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('INCR', KEYS[2])
return 1
