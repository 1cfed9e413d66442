-- The least that a fenced lock does. It takes the keys and arguments that the driver's script takes,
-- so that as many bytes pass, and looks at fewer.
-- KEYS: record, counter, -    ARGV: owner, ttl, -
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return false
