-- Invariant: a token is above all that were drawn from this counter, at least the server's clock
-- in microseconds, and above what the claim asks. It stays below 2^53, where Lua's numbers are
-- exact; `%.0f` prints all its digits (`..`, tostring and cjson print 14).
local function draw(counter, above)
  local drawn = tonumber(redis.call('GET', counter) or '0')
  if not drawn then
    return redis.error_reply('FOREIGN the token counter is not a number')
  end
  local time = redis.call('TIME')
  local token = math.max(drawn + 1, time[1] * 1000000 + time[2], above + 1)
  if not (token <= 9007199254740991) then
    return redis.error_reply('EXHAUSTED the next token would not be below 2^53')
  end
  token = string.format('%.0f', token)
  redis.call('SET', counter, token)
  return token
end

