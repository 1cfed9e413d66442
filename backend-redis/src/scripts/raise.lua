-- Invariant: afterwards each counter is at least `above`, so that the next token is above it; no
-- counter is lowered.
-- KEYS: counters    ARGV: above
for _, counter in ipairs(KEYS) do
  local drawn = tonumber(redis.call('GET', counter) or '0')
  if not drawn then
    return redis.error_reply('FOREIGN the token counter is not a number')
  end
  if drawn < tonumber(ARGV[1]) then
    redis.call('SET', counter, ARGV[1])
  end
end
return 1
