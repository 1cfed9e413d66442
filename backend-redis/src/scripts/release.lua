-- Invariant: only a record that begins with this head (owner, and the token where it is known) is
-- freed or closed, in the step that compared it. Whoever asks, and whatever it held, the owner's
-- queue place goes, and if the name is then free one waiter is woken: so a waiter that was popped
-- and gives up passes its wake-up on.
-- KEYS: record, places, entries    ARGV: head ('held OWNER [TOKEN ]')[, closed for]
-- Answers 1 released, 0 no record, -1 another's record. First comes what is mine and not awaited,
-- before the functions that only the others need.
local value = redis.pcall('GET', KEYS[1])
local outcome = 0
if not ARGV[2] and type(value) == 'string' and string.find(value, ARGV[1], 1, true) == 1 then
  redis.call('DEL', KEYS[1])
  if string.byte(value, -1) == 45 then -- '-'
    return 1
  end
  value = false
  outcome = 1
end

