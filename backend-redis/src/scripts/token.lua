-- Invariant: a token is above all that were drawn from this counter, at least the server's clock
-- in microseconds, and above what the claim asks. It stays below 2^53, where Lua's numbers are
-- exact; `%.0f` prints all its digits (`..`, tostring and cjson print 14). The clock's own digits,
-- which nearly every token is, come as text and need no printing.
local function draw(counter, above)
  local least = tonumber(redis.call('GET', counter) or 0)
  if not least then
    return redis.error_reply('FOREIGN the token counter is not a number')
  end
  above = tonumber(above)
  if above and above > least then
    least = above
  end
  local time = redis.call('TIME')
  local token = time[1] .. string.sub('00000' .. time[2], -6)
  if not (least < tonumber(token)) then
    if not (least < 9007199254740991) then
      return redis.error_reply('EXHAUSTED the next token would not be below 2^53')
    end
    token = string.format('%.0f', least + 1)
  end
  redis.call('SET', counter, token)
  return token
end
