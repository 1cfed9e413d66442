-- Invariant: only a lease with this token ends, whoever's it is, and the first waiter is woken.
-- KEYS: record, places, entries    ARGV: token
-- Answers 1 if it ended a lease, else 0.
local value = read(KEYS[1])
if type(value) == 'table' then
  return value
end
if not value or string.match(value, '^held %x+ (%d+)') ~= ARGV[1] then
  return demoted(KEYS[1], value) or 0
end
redis.call('DEL', KEYS[1])
wake_one(KEYS[1], KEYS[2], KEYS[3])
return 1
