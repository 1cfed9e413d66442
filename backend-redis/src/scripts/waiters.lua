-- Invariant: a waiter has a place in `places` (a sorted set: owner, by the microsecond of its
-- first entry) and an entry in `entries` (a hash: owner, to the millisecond at which its place
-- expires, the process that waits, and that microsecond). Who is woken loses the place and keeps
-- the entry until it leaves, so that one who finds the name taken gets the same place again. Both
-- keys expire with their last entry.
-- Nothing here is essential, since waiters also come back by time, and scripts do not roll back:
-- each command is pcalled, so that a full memory or a narrow ACL can't undo what came before it.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Marks a record as awaited; says whether there is one that is, so that a waiter may enter.
local function await(record, value)
  if not begins(value, 'held ') or string.sub(value, -1) ~= '-' then
    return true
  end
  return type(redis.pcall('SETRANGE', record, #value - 1, '+')) ~= 'table'
end

local function enter(places, entries, owner, process, ttl)
  ttl = tonumber(ttl)
  local at = now()
  local till = string.format('%.0f', math.ceil(at / 1000) + ttl)
  at = string.format('%.0f', at)
  local before = redis.pcall('HGET', entries, owner)
  if type(before) == 'string' then
    at = string.match(before, ' (%d+)$') or at
  end
  redis.pcall('HSET', entries, owner, till .. ' ' .. process .. ' ' .. at)
  redis.pcall('ZADD', places, 'NX', at, owner)
  for _, key in ipairs({ places, entries }) do
    local left = redis.pcall('PTTL', key)
    if type(left) == 'number' and left < ttl then
      redis.pcall('PEXPIRE', key, ttl)
    end
  end
end

local function leave(places, entries, owner)
  redis.pcall('ZREM', places, owner)
  redis.pcall('HDEL', entries, owner)
end

-- Wakes the first waiter that is there to hear it; says whether there was one. A message that
-- nobody receives went to a process that is gone: the next one is tried. (In a cluster the number
-- of receivers is this node's only.) Each entry is popped once, so the loop is paid for by entering.
-- A process's channel begins with what a record's key begins with before its tag.
local function wake_one(record, places, entries)
  local channel = string.match(record, '^[^{]*') .. 'wake:'
  while true do
    local owner = redis.pcall('ZPOPMIN', places)[1]
    if not owner then
      return false
    end
    local entry = redis.pcall('HGET', entries, owner)
    local till, process
    if type(entry) == 'string' then
      till, process = string.match(entry, '^(%d+) (%x+) ')
    end
    if till and till * 1000 >= now() then
      if redis.pcall('PUBLISH', channel .. process, owner) ~= 0 then
        return true
      end
    end
    redis.pcall('HDEL', entries, owner)
  end
end

