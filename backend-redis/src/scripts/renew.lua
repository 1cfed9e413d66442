-- Invariant: an expiry is only set on a record that still has this owner and token, in the step
-- that compared it; nothing is created, revived or added to. One lease's error is its own answer,
-- unless it is that this server is no primary, which goes for all.
-- KEYS: records    ARGV: for each its head ('held OWNER TOKEN ') and its ttl
-- Answers for each 1 renewed, 0 no record, -1 another's record, or an error's text.
local answers = {}
for at, key in ipairs(KEYS) do
  local value = read(key)
  local answer
  if type(value) == 'table' then
    answer = value
  elseif value and begins(value, ARGV[2 * at - 1]) then
    answer = redis.pcall('PEXPIRE', key, ARGV[2 * at])
  else
    answer = demoted(key, value) or (value and -1 or 0)
  end
  if type(answer) == 'table' then
    if string.find(answer.err, 'READONLY', 1, true) then
      return answer
    end
    answer = answer.err
  end
  answers[at] = answer
end
return answers
