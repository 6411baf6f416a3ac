-- Circuit breaker: `failures` of the last `of` outcomes open it; nothing passes for `open`; then at most `trials` do,
-- whose outcome closes it or opens it again.
--
-- Why atomic: all agents see one breaker, and together they let through no more trials than one would.
--
-- State    a key of its own ('k:o…'), which a healthy key does not have. Closed: 'c' and the last outcomes from the first
--          failure on, '1' a failure, the newest last. Open, or half-open once the time has passed: 'o', '>I7': until when,
--          then of each trial '>I7': when it ends without an outcome.
-- Rule     {failures, of, open, trials}; open in µs
-- Expires  an hour after it was written, or after the last time in it
-- Twin     lib/core/breaker.c
local BREAKER_KEPT = 3600000000
local SAME, OPENED, CLOSED = 0, 1, 2

local function breaker_load(text)
  if text and #text >= 8 and (#text - 8) % 7 == 0 and sub(text, 1, 1) == 'o' then
    local b = {trials = {}, outcomes = ''}
    b.open_until = unpack_fields('>I7', text, 2)
    for at_byte = 9, #text, 7 do
      local stop = unpack_fields('>I7', text, at_byte)
      if stop > now then
        b.trials[#b.trials + 1] = stop
      end
    end
    return b
  end
  return {trials = {}, outcomes = text and string.match(text, '^c([01]*)$') or ''}
end

-- µs until something may pass, 0: now.
local function breaker_wait(b, rule)
  if not b.open_until then
    return 0
  end
  if b.open_until > now then
    return b.open_until - now
  end
  return #b.trials < rule.trials and 0 or math.min(unpack(b.trials)) - now
end

-- Something passes: a trial, unless it is closed.
local function breaker_take(b, rule)
  if b.open_until then
    b.trials[#b.trials + 1] = now + rule.open
    b.dirty = true
  end
end

-- What passed at `stamp` was undone.
local function breaker_give(b, rule, stamp)
  for i = 1, #b.trials do
    if b.trials[i] == stamp + rule.open then
      table.remove(b.trials, i)
      b.dirty = true
      return
    end
  end
end

local function breaker_open(b, rule)
  b.open_until, b.trials, b.outcomes, b.dirty = now + rule.open, {}, '', true
  return OPENED
end

-- An outcome. Open, or half-open without a trial under way: one of before, which says nothing.
local function breaker_feed(b, rule, ok)
  if not b.open_until then
    local outcomes = sub(b.outcomes .. (ok and '0' or '1'), -rule.of)
    outcomes = string.match(outcomes, '1.*') or '' -- successes before the first failure change nothing
    local _, failures = string.gsub(outcomes, '1', '')
    b.dirty = b.dirty or outcomes ~= b.outcomes
    b.outcomes = outcomes
    return failures >= rule.failures and breaker_open(b, rule) or SAME
  end
  if b.open_until > now or #b.trials == 0 then
    return SAME
  end
  if not ok then
    return breaker_open(b, rule)
  end
  b.open_until, b.trials, b.dirty = nil, {}, true
  return CLOSED
end

local function breaker_save(b)
  if not b.open_until then
    if b.outcomes == '' then
      return call('DEL', b.key)
    end
    return call('SET', b.key, 'c' .. b.outcomes, 'PXAT', expiry_text(now + BREAKER_KEPT))
  end
  local last, text = b.open_until > now and b.open_until or now, 'o' .. pack_fields('>I7', b.open_until)
  for i = 1, #b.trials do
    last = b.trials[i] > last and b.trials[i] or last
    text = text .. pack_fields('>I7', b.trials[i])
  end
  call('SET', b.key, text, 'PXAT', expiry_text(last + BREAKER_KEPT))
end
