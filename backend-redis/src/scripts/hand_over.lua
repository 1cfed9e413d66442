-- Invariant: the record goes from the old lease to the new claim in one command, so nobody holds
-- between them and no two hold. Repeated, it finds that the owner is the new one already and answers
-- the same token. To yield it first finds another waiter that hears it; without one it grants.
-- KEYS: record, counter, places, entries
-- ARGV: head of the old lease ('held OWNER TOKEN '), that of the claim ('held OWNER '), ttl, metadata,
-- above, process, yield ('1')
-- Answers the new token, {1, token, ttl left}, {2} yielded, {0} no record, {-1} another's record.
local value = read(KEYS[1])
if type(value) == 'table' then
  return value
end
if value and begins(value, ARGV[2]) then
  return { 1, string.match(value, '^held %x+ (%d+)'), redis.call('PTTL', KEYS[1]) }
end
if not value or not begins(value, ARGV[1]) then
  return demoted(KEYS[1], value) or { value and -1 or 0 }
end
local owner = string.sub(ARGV[2], 6, 37)
leave(KEYS[3], KEYS[4], owner)
if ARGV[7] == '1' and wake_one(KEYS[1], KEYS[3], KEYS[4]) then
  redis.call('DEL', KEYS[1])
  enter(KEYS[3], KEYS[4], owner, ARGV[6], ARGV[3])
  return { 2 }
end
local token = draw(KEYS[2], ARGV[5])
if type(token) == 'table' then
  return token
end
local mark = redis.call('EXISTS', KEYS[3]) == 0 and '-' or '+'
redis.call('SET', KEYS[1], ARGV[2] .. token .. ARGV[4] .. mark, 'PX', ARGV[3])
return token
