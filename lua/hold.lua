-- Hold: nothing is taken from a key until an instant, because a server asked one worker to stay away (Retry-After).
--
-- Why atomic: the next take of every agent sees it, and a longer hold is never replaced by a shorter one.
--
-- State    'H', '>I7': the end, µs; behind it the text of the algorithm's own state, if that is a string: a key without a
--          hold pays nothing for it, and the loop of plain batches leaves a key with one to decide.lua, as those with
--          leases. Of an algorithm with a sorted set it stands alone, in a key of its own ('k:h…'). No other state of
--          these begins with 'H': as the first byte of a time it would be in the year 2612.
-- Expires  60 s after its end or when the state does, whichever is later
-- Fence    An end in a year that no clock will see, FENCE + the version of the regions by which the key is at home
--          elsewhere (docs/home.md): it is held for all who ask here, and who comes back FENCED later is told again. Kept for
--          FENCE_KEPT. Behind it is the hold that it found, in the same form.
local FENCE, FENCE_KEPT, FENCED = 8000000000000000, 69120000000000, 1000000 -- µs: in 2223; 800 days; SCRIPT_FENCED_US

-- The end of the hold in front of a text, the text behind it, and the end of the hold behind a fence; nil for what is not there.
local function hold_split(text)
  if not text or sub(text, 1, 1) ~= 'H' or #text < 8 then
    return nil, text
  end
  local hold, rest, held = unpack_fields('>I7', sub(text, 2, 8)), sub(text, 9)
  if hold >= FENCE and sub(rest, 1, 1) == 'H' and #rest >= 8 then
    held, rest = unpack_fields('>I7', sub(rest, 2, 8)), sub(rest, 9)
  end
  return hold, rest ~= '' and rest or nil, held
end

-- Puts the hold and the turns (turns.lua) in front of the state's text, which was saved just now or is as it was.
local function guards_save(s, saved)
  local guards, stop, text, state_until = '', 0, '', 0
  if s.hold then
    guards, stop = 'H' .. pack_fields('>I7', s.hold), s.hold < FENCE and s.hold or now + FENCE_KEPT
    guards = guards .. (s.held and 'H' .. pack_fields('>I7', s.held) or '')
  end
  if s.turns and not turn.is_empty(s.turns) then
    local turns, until_us = turn.text(s.turns)
    guards, stop = guards .. turns, until_us > stop and until_us or stop
  end
  if not s.hold_key then
    text = saved and call('GET', s.key) or not saved and s.text or ''
    state_until = text ~= '' and now + call('PTTL', s.key) * 1000 or 0
  end
  if guards .. text == '' then
    call('DEL', s.hold_key or s.key)
  elseif stop + 60000000 <= state_until then
    call('SET', s.key, guards .. text, 'KEEPTTL')
  else
    call('SET', s.hold_key or s.key, guards .. text, 'PXAT', expiry_text(stop > state_until and stop or state_until))
  end
end
