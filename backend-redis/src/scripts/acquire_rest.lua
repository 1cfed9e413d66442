local value = read(KEYS[1])
if type(value) == 'table' then
  return value
end
local owner = string.sub(ARGV[1], 6, 37)
if value and not begins(value, ARGV[1]) then
  local refusal = demoted(KEYS[1], value)
  if refusal then
    return refusal
  end
  if ARGV[5] and await(KEYS[1], value) then
    enter(KEYS[3], KEYS[4], owner, ARGV[5], ARGV[2])
  end
  return { 0, string.sub(value, 1, 2048), redis.call('PTTL', KEYS[1]) }
end
local answer
if value then
  answer = { 1, string.match(value, '^held %x+ (%d+)'), redis.call('PTTL', KEYS[1]) }
else
  answer = draw(KEYS[2], ARGV[4])
  if type(answer) == 'table' then
    return answer
  end
  redis.call('SET', KEYS[1], ARGV[1] .. answer .. ARGV[3] .. '+', 'PX', ARGV[2])
end
if KEYS[4] then
  leave(KEYS[3], KEYS[4], owner)
end
return answer
