-- A record is 'held OWNER TOKEN ..' or 'closed OWNER TOKEN ..'. Its last character is '-' only while
-- nobody waits for it (no place in the list when it was granted, none entered since), and else '+': so
-- the release of what nobody waits for need not look at the list. What is there but is none of
-- ours (another type, another text) is held by nobody we know, and never taken over.
local function known(value)
  if type(value) == 'table' and string.find(value.err, 'WRONGTYPE', 1, true) then
    return ''
  end
  return value
end

local function read(key)
  return known(redis.pcall('GET', key))
end

local function begins(value, head)
  return string.find(value, head, 1, true) == 1
end

-- A server that was demoted answers from what it had. So before a script says that it changes
-- nothing, it tries a write that changes nothing (DEL of what is not there, SETNX of what is), and
-- says what only a replica says to that. Other refusals are no news here.
local function demoted(key, value)
  local write = value and redis.pcall('SETNX', key, '') or redis.pcall('DEL', key)
  if type(write) == 'table' and string.find(write.err, 'READONLY', 1, true) then
    return write
  end
end

