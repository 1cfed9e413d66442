-- Invariant: each record and what remains of it are read in one step. Changes nothing.
-- KEYS: records    Answers for each its text (false where there is none) and its ttl left.
local answers = {}
for at, key in ipairs(KEYS) do
  local value = read(key)
  if type(value) == 'table' then
    return value
  end
  answers[2 * at - 1] = value and string.sub(value, 1, 2048)
  answers[2 * at] = redis.call('PTTL', key)
end
return answers
