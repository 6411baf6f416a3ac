-- Hold: nothing is taken from a key until an instant, because a server asked one worker to stay away (Retry-After).
--
-- Why atomic: the next take of every agent sees it, and a longer hold is never replaced by a shorter one.
--
-- State    'H', '>I7': the end, µs; behind it the text of the algorithm's own state, if that is a string: a key without a
--          hold pays nothing for it, and the loop of plain batches leaves a key with one to decide.lua, as those with
--          leases. Of an algorithm with a sorted set it stands alone, in a key of its own ('k:h…'). No other state of
--          these begins with 'H': as the first byte of a time it would be in the year 2612.
-- Expires  60 s after its end or when the state does, whichever is later

-- The end of the hold in front of a text, and the text behind it; nil for what is not there.
local function hold_split(text)
  if not text or sub(text, 1, 1) ~= 'H' then
    return nil, text
  end
  local rest = sub(text, 9)
  return unpack_fields('>I7', sub(text, 2, 8)), rest ~= '' and rest or nil
end

-- Puts the hold in front of what was just saved.
local function hold_save(s)
  local text, state_until = '', 0
  if not s.hold_key then
    text = call('GET', s.key) or ''
    state_until = now + call('PTTL', s.key) * 1000
  end
  call('SET', s.hold_key or s.key, 'H' .. pack_fields('>I7', s.hold) .. text, 'PXAT',
    expiry_text(s.hold > state_until and s.hold or state_until))
end
