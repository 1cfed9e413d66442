-- Invariant: a record is only written where there is none, in one command with its expiry, and
-- after everything that can be refused; so an error means that nothing was granted. Asked again by
-- the owner that holds, it answers the same token and re-arms nothing.
-- KEYS: record, counter, places[, entries (to queue, or to leave the queue)]
-- ARGV: head ('held OWNER '), ttl, metadata[, above[, process (to queue)]]
-- Answers the new token, {1, token, ttl left} or {0, record, ttl left}. First comes the free name
-- that nobody waits for, before the functions that only the others need.
if redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  local token = draw(KEYS[2], ARGV[4])
  if type(token) == 'string' then
    redis.call('SET', KEYS[1], ARGV[1] .. token .. ARGV[3] .. '-', 'PX', ARGV[2])
    if KEYS[4] then -- it was woken: its place is gone, its entry is not
      redis.pcall('HDEL', KEYS[4], string.sub(ARGV[1], 6, 37))
    end
  end
  return token
end

