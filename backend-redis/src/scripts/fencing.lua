-- Invariant: answers a counter as a primary has it. Changes nothing.
-- KEYS: counter    Answers the counter, or false where there is none.
local value = redis.call('GET', KEYS[1])
return demoted(KEYS[1], value) or value
