value = known(value)
if type(value) == 'table' then
  return value
end
-- First, as this also goes on where memory is full, and lets the rest go on too (Redis looks at
-- memory before the first write only).
leave(KEYS[2], KEYS[3], string.sub(ARGV[1], 6, 37))
-- Also when the name was closed just now: one waiter learns when it opens.
local wakes = not value
if value then
  outcome = -1
  if begins(value, ARGV[1]) then
    outcome = 1
    redis.call('SET', KEYS[1], 'closed ' .. string.sub(value, 6), 'PX', ARGV[2])
    wakes = true
  elseif begins(value, 'closed' .. string.sub(ARGV[1], 5)) then
    outcome = 1
  end
end
local refusal = outcome ~= 1 and demoted(KEYS[1], value)
if refusal then
  return refusal
end
if wakes then
  wake_one(KEYS[1], KEYS[2], KEYS[3])
end
return outcome
