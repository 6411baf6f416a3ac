-- pool, the last piece: the operations of a batch, one after the other.
--
-- Why atomic: NEXT chooses, counts and issues in one step, REPORT judges and counts in one, so in-flight never drifts.
--
-- A ticket is `serial.end of its lease.authenticator`: unguessable by the pool's secret, which stays in Redis. What it was issued
-- for is in the hash k:p{POOL}i by its serial, until it is reported or an hour after its lease; k:p{POOL}l has the ends of the
-- leases, k:p{POOL}x those which are over. A ticket that is genuine and has no entry was reported before.
local KIND = {NEXT = 1, REPORT = 2, UNDO = 3, SHOW = 4, NUMBERS = 5, ENABLE = 6, PROBE = 7, PROBER = 8, LEAVE = 9}
local OK, REFUSED, AUTH, TUNNEL, TIMEOUT, TARGET_ERROR, BLOCKED, CAPTCHA, EMPTY, CANCELLED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
local FLOOR, COOLS, SLOTS, IS_HELD, NOTHING = 1, 2, 3, 4, 5
local forever = 9007199254740992
local records, added, removed, leases, ended, given_back = {}, {}, {}, {}, {}, {}
local RECORD = '<BBddd'
local SESSION_NEW, EXPIRED = 1, 2
local reply = {}

local function record_text(r)
  return pack_fields(RECORD, r.flags, r.tier, r.stop, r.tag, r.last) .. pack_fields('<B', #r.id) .. r.id ..
    pack_fields('<I2', #r.target) .. r.target .. pack_fields('<I2', #r.session) .. r.session
end

local function record_of(seq)
  local r = records[seq]
  if r ~= nil then
    return r
  end
  local text, place = call('HGET', pool .. 'i', format('%d', seq))
  if not text then
    records[seq] = false
    return false
  end
  r = {seq = seq}
  r.flags, r.tier, r.stop, r.tag, r.last, r.id, r.target, r.session, place = unpack_fields(RECORD .. 'Bc0I2c0I2c0', text)
  records[seq] = r
  return r
end

-- Of a ticket of `id` that is no longer in flight. An endpoint that the definition does not have may come back to it.
local function lands(id)
  local e = index_of(id) and endpoint_of(index_of(id)) or endpoint_outside(id)
  if e then
    e.in_flight = e.in_flight > 0 and e.in_flight - 1 or 0
    touch(e)
  end
end

local function record_drop(r)
  local seq = format('%d', r.seq)
  records[r.seq] = false
  removed[#removed + 1] = seq
  if r.flags >= EXPIRED then
    given_back[#given_back + 1] = seq
  else
    lands(r.id)
    ended[#ended + 1] = seq
  end
end

local function authenticator(text)
  return sub(redis.sha1hex(secret .. pool .. text .. secret), 1, 24)
end

-- The serial of a ticket that this pool issued and has not forgotten, or nil.
local function serial_of(ticket)
  local text, mac = string.match(ticket, '^(%x+%.%x+)%.(%x+)$')
  if not text or #ticket > 80 or authenticator(text) ~= mac then
    return
  end
  local seq, stop = string.match(text, '^(%x+)%.(%x+)$')
  if tonumber(stop, 16) * 1000 + HOUR <= now then
    return
  end
  return tonumber(seq, 16)
end

-- ---- loading ----

do
  local n = #endpoints
  local fields = {'=', '#', 't'}
  for first = 1, n + 3, 1000 do
    local ask, last = {}, first + 999 < n + 3 and first + 999 or n + 3
    for i = first, last do
      ask[#ask + 1] = i <= 3 and fields[i] or 'e' .. endpoints[i - 3].id
    end
    local got = call('HMGET', pool, unpack(ask))
    for i = first, last do
      local text = got[i - first + 1]
      if i > 3 then
        texts[i - 3] = text
      else
        fields[i] = text
      end
    end
  end
  read_vars(fields[1])
  secret, whole_text = fields[2], fields[3]
  target_new('', whole_text or nil)
  if vars.fresh then
    vars.dirty = true
  end
end

-- Leases that are over.
local function expire()
  local over = call('ZRANGEBYSCORE', pool .. 'l', '-inf', format('%.0f', now), 'LIMIT', 0, 1000)
  if #over > 0 then
    call('ZREM', pool .. 'l', unpack(over))
    local again, late = {}, {}
    for i = 1, #over do
      local r = record_of(tonumber(over[i]))
      if r then
        lands(r.id)
        r.flags = r.flags + EXPIRED
        again[#again + 1], again[#again + 2] = over[i], record_text(r)
        late[#late + 1], late[#late + 2] = format('%.0f', r.stop + HOUR), over[i]
      end
    end
    if #again > 0 then
      call('HSET', pool .. 'i', unpack(again))
      call('ZADD', pool .. 'x', unpack(late))
      call('PEXPIRE', pool .. 'x', MONTH_MS)
    end
  end
end

-- Tickets that are forgotten.
local function forget()
  local x = pool .. 'x'
  local gone = call('ZRANGEBYSCORE', x, '-inf', format('%.0f', now), 'LIMIT', 0, 1000)
  local many = call('ZCARD', x) - #gone - 100000
  if many > 0 then
    gone = call('ZRANGE', x, 0, #gone + (many < 1000 and many or 1000) - 1)
  end
  if #gone > 0 then
    call('ZREM', x, unpack(gone))
    call('HDEL', pool .. 'i', unpack(gone))
  end
end
expire()

for i = 1, #endpoints do
  local e = endpoint_of(i)
  local h = e.health
  if rule.direct == 1 and h.cooling and health.wait(h, rule.health == 1) == 0 then
    endpoint_back(e)
  end
end

-- ---- NEXT ----

-- µs until the first lease ends. The set still has those that this batch has ended, and not yet those that it began.
local function first_lease()
  local first, soonest = forever, call('ZRANGE', pool .. 'l', 0, #ended, 'WITHSCORES')
  for i = 1, #soonest, 2 do
    local stop = tonumber(soonest[i + 1])
    first = records[tonumber(soonest[i])] ~= false and stop < first and stop or first
  end
  for i = 1, #added do
    local r = records[added[i]]
    first = r and r.stop < first and r.stop or first
  end
  return first < forever and first > now and first - now or rule.lease
end

-- Why `e` can't be given for this call, and for how long; nil: it can.
local function obstacle(e, t, s)
  local mine = s and s.id == e.id
  if rule.kind == 1 then
    local held = account_wait(account_of(e))
    if held > 0 then
      return IS_HELD, held
    end
  end
  local wait = health.wait(e.health, rule.health == 1)
  if wait > 0 then
    return COOLS, wait
  end
  if t.name ~= '' then
    local seen = seen_of(t, e)
    if seen and seen.health.cooling then
      seen_advance(t, e, seen)
      wait = health.wait(seen.health, false)
      if wait > 0 then
        return COOLS, wait
      end
    end
  end
  if rule.exclusive == 1 and e.excluded > now and not mine then
    return SLOTS, e.excluded - now
  end
  if e.slots > 0 and e.in_flight >= e.slots then
    return SLOTS, -1
  end
end

local function paused(why, wait, firm)
  return nil, why, wait, firm
end

-- Of a session, whose endpoint is as it was: it and nothing else.
local function kept_endpoint(s, t, first)
  local index = s.id ~= '' and index_of(s.id)
  local e = index and endpoint_of(index)
  if not e or is_off(e) or e.tier < first then
    return
  end
  local h, seen = e.health, t.name ~= '' and seen_of(t, e)
  if h.cooling or h.began >= s.bound or (seen and (seen.health.cooling or seen.health.began >= s.bound)) then
    return
  end
  return e
end

-- Those who wait for a place, at all agents, come in the order of their arrival: k:p{POOL}w and the tier has them by that,
-- k:p{POOL}W by when they asked last. Who has not asked for a while is gone. Nobody needs a place where there is no bound.
local NOBODY, GONE, AGAIN = string.rep('\0', 8), 500000, 50000

local function places(open)
  local n = 0
  for i = 1, #open do
    local e = open[i]
    if e.slots == 0 and not e.health.cooling then
      return forever
    end
    n = n + (e.health.cooling and 1 or e.slots - e.in_flight)
  end
  return n
end

-- How many came earlier.
local function ahead_of(op, tier)
  local line, seen = pool .. 'w' .. tier, pool .. 'W' .. tier
  local gone = call('ZRANGEBYSCORE', seen, '-inf', format('%.0f', now - GONE))
  if #gone > 0 then
    call('ZREM', seen, unpack(gone))
    call('ZREM', line, unpack(gone))
  end
  if op.arrival == 0 then
    return call('ZCARD', line)
  end
  return call('ZCOUNT', line, '-inf', '(' .. format('%.0f', op.arrival))
end

local function wait_in_line(op, tier)
  local line, seen = pool .. 'w' .. tier, pool .. 'W' .. tier
  call('ZADD', line, 'NX', format('%.0f', op.arrival > 0 and op.arrival or now), op.waiter)
  call('ZADD', seen, format('%.0f', now), op.waiter)
  call('PEXPIRE', line, 60000)
  call('PEXPIRE', seen, 60000)
end

local function leave_line(waiter, tier)
  call('ZREM', pool .. 'w' .. tier, waiter)
  call('ZREM', pool .. 'W' .. tier, waiter)
end

local function is_passed_over(op, i)
  for k = 1, #op.skip do
    if op.skip[k] == i then
      return true
    end
  end
end

-- What can be chosen from in `tier`; without any, why not, for how long, and for how long nothing can change that.
local function open_endpoints(op, t, s, tier)
  local open, why, least, firm = {}, NOTHING, forever, forever
  local n, bare, skips = 0, rule.kind == 0 and rule.exclusive == 0 and t.name == '', #op.skip > 0
  for i = 1, #endpoints do
    local e = endpoints[i]
    if e.tier == tier and e.weight > 0 and e.off == 0 and e.disabled == 0 and not (skips and is_passed_over(op, i)) then
      local reason, wait
      if not bare or e.slots > 0 or e.health.cooling then
        reason, wait = obstacle(e, t, s)
      end
      if not reason then
        n = n + 1
        open[n] = e
      else
        if wait < 0 then
          wait = first_lease()
        end
        if wait < least then
          why, least = reason, wait
        end
        local rest = reason == COOLS and e.health.cooling and e.health.stop > now and e.health.stop - now or 0
        firm = rest < firm and rest or firm
      end
    end
  end
  return open, why, least, firm
end

-- The endpoint that a session keeps (second: true), or those that can be chosen from; else why there is none.
local function find(op, t, s)
  local first = op.tier > 0 and op.tier or tier_now(t)
  local tier = tier_from(first)
  local kept = s and kept_endpoint(s, t, first)
  if not tier and not kept then
    return paused(NOTHING, -1, forever)
  end
  local held = targets[''].held > t.held and targets[''].held or t.held
  if held > now then
    return paused(IS_HELD, held - now, held - now)
  end
  floor_check()
  local open, why, wait, firm
  if kept then
    open, firm = {kept}, 0
    why, wait = obstacle(kept, t, s)
    if why then
      open, wait = {}, wait >= 0 and wait or first_lease()
    end
  else
    open, why, wait, firm = open_endpoints(op, t, s, tier)
    local n = #open > 0 and not s and places(open) or forever
    if n < forever and ahead_of(op, tier) >= n then
      open, why, wait, firm = {}, SLOTS, AGAIN, 0
    end
  end
  local floor = floor_wait()
  if #open == 0 and why ~= NOTHING and (floor == 0 or wait <= floor) then
    return paused(why, wait, firm)
  elseif floor > 0 then
    return paused(FLOOR, floor, 0)
  elseif #open == 0 then
    return paused(NOTHING, -1, 0)
  end
  return open, kept, tier
end

local function begin_trials(e, t, seq)
  local is_trial = false
  if e.health.cooling then
    e.health.trial, e.health.trial_stop, is_trial = seq, now + rule.trial, true
  end
  local seen = t.name ~= '' and seen_of(t, e)
  if seen and seen.health.cooling then
    seen.health.trial, seen.health.trial_stop, is_trial = seq, now + rule.trial, true
    t.dirty_of[e.index] = true
  end
  return is_trial
end

-- Binds the session to `e`. Returns whether it had something else before.
local function session_use(s, e, kept)
  local was, moved = s.id, false
  if was ~= e.id or not kept then
    moved = was ~= ''
    s.moves = moved and s.moves % 65535 + 1 or s.moves
    if rule.exclusive == 1 and moved and was ~= e.id and index_of(was) then
      local other = endpoint_of(index_of(was))
      other.excluded = 0
      touch(other)
    end
    s.id = e.id
  end
  if moved or was == '' then
    s.bound = vars.seq
  end
  e.excluded = rule.exclusive == 1 and now + rule.ttl or 0
  session_save(s)
  return moved, was == ''
end

-- `why` of an answer that was found in this batch, where nothing has changed since.
local memo, memo_at = {}, -1
local function next_endpoint(op)
  local t = target_of(op.target)
  local s = op.session ~= '' and session_of(op.session) or nil
  local waits = op.waiter ~= NOBODY and not s
  local simple = not s and not waits and #op.skip == 0 and op.tier .. op.target
  if memo_at ~= changes then
    memo, memo_at = {}, changes
  end
  if simple and memo[simple] then
    return memo[simple]
  end
  local open, why, wait, firm = find(op, t, s)
  if waits then
    local tier = tier_from(op.tier > 0 and op.tier or tier_now(t))
    if open and op.arrival > 0 then
      leave_line(op.waiter, tier)
    elseif why == SLOTS or (why == COOLS and op.target == '') then
      wait_in_line(op, tier)
    end
  end
  if not open then
    local text = pack_fields('<BBdd', 0, why, wait, firm < forever and firm or -1)
    if simple then
      memo[simple] = text
    end
    return text
  end
  local kept, tier, e, tag = why, wait, open[1], open[1].tag
  if not kept then
    e, tag = choice[rule.select](open, tier)
  end
  vars.seq = vars.seq + 1
  local seq = vars.seq
  local r = {seq = seq, flags = 0, tier = e.tier, stop = now + rule.lease, tag = tag - e.tag, last = e.last, id = e.id,
    target = op.target, session = ''}
  local moved, new = false, false
  if s then
    moved, new = session_use(s, e, kept)
    r.session, r.flags = (new or moved) and s.name or '', new and SESSION_NEW or 0
  end
  e.tag, e.last, e.in_flight, e.tickets = tag, seq, e.in_flight + 1, e.tickets + 1
  vars.tickets, vars.above, vars.dirty = vars.tickets + 1, vars.above + (e.tier > 1 and 1 or 0), true
  touch(e)
  if rule.kind == 1 then
    account_use(account_of(e), 1)
  end
  local trial = begin_trials(e, t, seq)
  records[seq] = r
  added[#added + 1] = seq
  local score = format('%.0f', r.stop)
  leases[#leases + 1], leases[#leases + 2] = score, format('%d', seq)
  local text = format('%x.%x', seq, (r.stop - r.stop % 1000) / 1000)
  local ticket = text .. '.' .. authenticator(text)
  return pack_fields('<BI2BBI2dB', 1, e.index, e.tier, (moved and 1 or 0) + (trial and 2 or 0), s and s.moves or 0, seq, #ticket) .. ticket
end

-- What a reservation took is given back, as if it had not been.
local function undo(seq)
  local r = record_of(seq)
  if not r or r.stop + HOUR <= now then
    return
  end
  record_drop(r)
  local index = index_of(r.id)
  if not index then
    return
  end
  local e = endpoint_of(index)
  e.tag, e.tickets = e.tag - r.tag, e.tickets > 0 and e.tickets - 1 or 0
  if e.last == seq then
    e.last = r.last
  end
  vars.tickets = vars.tickets > 0 and vars.tickets - 1 or 0
  vars.above = vars.above - (r.tier > 1 and vars.above > 0 and 1 or 0)
  vars.dirty = true
  health.free(e.health, seq)
  if r.target ~= '' then
    local t = target_of(r.target)
    local s = seen_of(t, e)
    if s and health.free(s.health, seq) then
      t.dirty_of[index] = true
    end
  end
  if rule.kind == 1 then
    account_use(account_of(e), -1)
  end
  local s = r.session ~= '' and session_of(r.session)
  if s and s.bound == seq and s.id == e.id then
    if r.flags % 2 == SESSION_NEW then
      s.id, s.moves = '', 0
      e.excluded = 0
    else -- nobody was told that it moved: it moves again
      s.bound = 0
    end
    session_save(s)
  end
  touch(e)
end

-- ---- REPORT ----

local function free_trials(e, t, seq)
  local freed = health.free(e.health, seq)
  local s = t.name ~= '' and seen_of(t, e)
  if s and health.free(s.health, seq) then
    freed, t.dirty_of[e.index] = true, true
  end
  if freed then
    touch(e)
  end
end

-- A success (bit 0) or something neutral, as far as the endpoint itself goes.
local function endpoint_answers(e, seq, bit)
  local what = health.take(e.health, seq, bit)
  if what == IGNORED then
    return false
  end
  if bit == 0 then
    count_return(e, true)
  end
  if what == PASSED then
    endpoint_back(e)
  end
  touch(e)
  return true
end

local function endpoint_fails(e, seq, hint, why)
  local h = e.health
  local what = health.take(h, seq, 1)
  if what == IGNORED then
    if seq <= h.began and health.late(h, hint) then
      moves = moves + 1
      touch(e)
    end
    return false
  end
  count_return(e, false)
  if what == FAILED then
    endpoint_cool(e, hint, why)
  end
  touch(e)
  return true
end

local function key_unknown(e)
  e.auths = e.auths + 1
  if e.auths >= 3 and e.disabled == 0 then
    e.disabled, moves = 1, moves + 1
    tiers_here = nil
    tell(DISABLED, e.index, 0, AUTH, '')
  end
  touch(e)
end

-- The endpoint was recognised, or the target turns everybody away.
local function judged(e, t, r, op, hint)
  local sign = op.outcome ~= BLOCKED or (op.status > 0 and op.status ~= 429)
  target_meets(t, e, true)
  target_sign(t, r.tier, sign)
  if at_fault(t) then
    free_trials(e, t, r.seq)
    if not (sign and target_escalate(t, r.tier)) then
      target_hold(t, hint > 0 and hint or rule.hold)
    end
    return true
  end
  if t.name ~= '' then
    endpoint_answers(e, r.seq)
  end
  return target_blames(t, e, r.seq, hint, op.outcome)
end

local function answers(e, t, seq, bit)
  target_meets(t, e, false)
  target_answers(t, e, seq, bit)
  return endpoint_answers(e, seq, bit)
end

-- What of a report is the provider's word on the account of a key. True: nothing else of it counts.
local function account_hears(e, op, hint)
  local a = account_of(e)
  for i = 1, #op.quota do
    local q = op.quota[i]
    account_learn(a, q.name, q.limit, q.left, q.absolute == 1 and q.reset or now + q.reset)
  end
  account_hold(a, hint)
  if op.outcome ~= AUTH and op.outcome ~= CANCELLED and op.outcome ~= REFUSED and op.outcome ~= TUNNEL and op.outcome ~= TIMEOUT then
    e.auths = 0
  end
  return op.outcome == BLOCKED and hint > 0
end

local function judge(e, t, r, op)
  local hint, outcome = op.hint > 0 and op.hint or 0, op.outcome
  if rule.kind == 1 then
    if account_hears(e, op, hint) then
      free_trials(e, t, r.seq)
      return true
    end
    hint = 0
    if outcome == REFUSED or outcome == TUNNEL or outcome == TIMEOUT then
      free_trials(e, t, r.seq)
      return true
    end
  end
  if outcome == OK then
    target_sign(t, r.tier, false)
    return answers(e, t, r.seq, 0)
  elseif outcome == TARGET_ERROR then
    target_sign(t, r.tier, false)
    return answers(e, t, r.seq)
  elseif outcome == CANCELLED then
    free_trials(e, t, r.seq)
    return true
  elseif outcome == BLOCKED or outcome == CAPTCHA or outcome == EMPTY then
    return judged(e, t, r, op, hint)
  end
  if rule.kind == 1 and outcome == AUTH then
    key_unknown(e)
  end
  local s = t.name ~= '' and seen_of(t, e)
  if s and health.free(s.health, r.seq) then
    t.dirty_of[e.index] = true
  end
  return endpoint_fails(e, r.seq, hint, outcome)
end

-- 0: no such ticket; 1: it counted; 2: it did not.
local function report(op)
  local seq = serial_of(op.ticket)
  if not seq then
    return 0
  end
  local r = record_of(seq)
  if not r then
    return 2
  end
  record_drop(r)
  local index = index_of(r.id)
  if not index then
    return 2
  end
  local e = endpoint_of(index)
  return judge(e, target_of(r.target), r, op) and 1 or 2
end

-- ---- what operators and agents see ----

local function show_endpoint(e)
  local h = e.health
  local a = rule.kind == 1 and account_of(e) or nil
  local held, quota = a and account_wait(a) or 0, {}
  for i = 1, a and #a or 0 do
    local q = a[i]
    if q.reset > now then
      quota[#quota + 1] = pack_fields('<B', #q.name) .. q.name .. pack_fields('<ddd', q.limit, q.left, q.reset - now)
    end
  end
  return pack_fields('<BBdBBBdddB', e.disabled, h.cooling and 1 or 0, h.cooling and health.wait(h, rule.health == 1) or 0, h.level,
    h.n, health.failures(h), e.in_flight, e.tickets, held, #quota) .. table.concat(quota)
end

-- What k:p{POOL}h has, by the endpoint's id: the cooldown of the last probe, when it was due, when it was over, what it found.
local FOUND = '<dddB'
local function probes()
  local flat, all = call('HGETALL', pool .. 'h'), {}
  for i = 1, #flat, 2 do
    local began, due, over, result = unpack_fields(FOUND, flat[i + 1])
    all[flat[i]] = {began = began, due = due, over = over, result = result}
  end
  return all
end

local function show_probes()
  local all, n, parts = probes(), 0, {}
  for i = 1, #endpoints do
    local p = all[endpoints[i].id]
    if p and p.result > 0 then
      n = n + 1
      parts[n] = pack_fields('<I2Bd', i, p.result, now > p.over and now - p.over or 0)
    end
  end
  return pack_fields('<I2', n) .. table.concat(parts)
end

-- Of each target of which there is something to tell: its tier, hold, and endpoints that cool there.
local function show_target(name)
  local t, cools = target_of(name), {}
  for i = 1, #endpoints do
    local s = seen_of(t, endpoints[i])
    if s and s.health.cooling then
      seen_advance(t, endpoints[i], s)
    end
    if s and s.health.cooling then
      cools[#cools + 1] = pack_fields('<I2d', i, health.wait(s.health, false))
    end
  end
  local held = t.held > now and t.held - now or 0
  return pack_fields('<I2', #name) .. name .. pack_fields('<BdI2', tier_now(t), held, #cools) .. table.concat(cools)
end

local function numbers_text()
  for i = 1, #endpoints do
    settle(endpoint_of(i))
    if endpoints[i].health.cooling then
      endpoints[i].dirty = true
    end
  end
  vars.dirty = true
  return pack_fields('<dddddddddd', vars.from, now, vars.cooldowns, vars.cooled, vars.least, vars.tickets, vars.above,
    vars.good, vars.back, #endpoints)
end

local function show()
  forget()
  floor_check()
  local op = {tier = 0, skip = {}, waiter = NOBODY, arrival = 0}
  local open, why, wait = find(op, targets[''])
  local names = call('ZRANGEBYSCORE', pool .. 'T', '(' .. format('%.0f', now), '+inf', 'LIMIT', 0, 100)
  local known = {}
  for i = 1, #names do
    known[names[i]] = true
  end
  for name in pairs(remembered) do
    if not known[name] then
      names[#names + 1] = name
    end
  end
  local parts = {numbers_text(), pack_fields('<ddBd', vars.all_cooldowns, vars.all_cooled, open and 0 or why, open and 0 or wait),
    pack_fields('<I2', #endpoints)}
  for i = 1, #endpoints do
    parts[#parts + 1] = show_endpoint(endpoint_of(i))
  end
  if targets[''].held > now or tier_now(targets['']) > 1 then
    names[#names + 1] = ''
  end
  parts[#parts + 1] = pack_fields('<I2', #names)
  for i = 1, #names do
    if names[i] == '' then
      local t = targets['']
      parts[#parts + 1] = pack_fields('<I2BdI2', 0, tier_now(t), t.held > now and t.held - now or 0, 0)
    else
      parts[#parts + 1] = show_target(names[i])
    end
  end
  if rule.health == 1 then
    parts[#parts + 1] = show_probes()
  end
  return table.concat(parts)
end

-- Endpoints that no definition of the last day has had are forgotten.
local function forget_endpoints()
  if call('HLEN', pool) <= 2 * n_endpoints + 64 then
    return
  end
  local fields = call('HGETALL', pool)
  for i = 1, #fields, 2 do
    local used = sub(fields[i], 1, 1) == 'e' and not index_of(sub(fields[i], 2)) and unpack_fields('<d', fields[i + 1], 49)
    if used and used + 86400000000 < now then
      call('HDEL', pool, fields[i])
    end
  end
end

-- The five numbers of the time since the last report, once that is as long as `report` says, for the agent that asks first.
local function numbers()
  floor_check()
  if now - vars.from < rule.report then
    return pack_fields('<B', 0)
  end
  forget_endpoints()
  local parts = {pack_fields('<B', 1), numbers_text()}
  for i = 1, #endpoints do
    local e = endpoint_of(i)
    parts[#parts + 1] = pack_fields('<d', e.tickets)
    e.tickets, e.dirty = 0, true
  end
  vars.from, vars.cooldowns, vars.cooled, vars.tickets, vars.above, vars.good, vars.back = now, 0, 0, 0, 0, 0, 0
  vars.least = vars.active
  return table.concat(parts)
end

-- The operator says that it is to be used again.
local function enable(op)
  local e = endpoints[op.endpoint] and endpoint_of(op.endpoint)
  if not e then
    return pack_fields('<B', 0)
  end
  local was = e.disabled
  e.disabled, e.auths, tiers_here, moves = 0, 0, nil, moves + 1
  touch(e)
  return pack_fields('<B', was)
end

-- What a probe of the cooldown that began after ticket `began` found.
local PASSED_PROBE = 1
local function probe(op)
  local e = endpoints[op.endpoint] and endpoint_of(op.endpoint)
  local h = e and e.health
  if not h or not h.cooling or h.began ~= op.began then
    return pack_fields('<B', 0)
  end
  local text = call('HGET', pool .. 'h', e.id)
  local due = text and select(2, unpack_fields(FOUND, text)) or now
  call('HSET', pool .. 'h', e.id, pack_fields(FOUND, op.began, due, now, op.result))
  call('PEXPIRE', pool .. 'h', MONTH_MS)
  if op.result == PASSED_PROBE then
    health.set(h, PROBED, true)
    moves = moves + 1
    if rule.direct == 1 and health.wait(h, true) == 0 then
      endpoint_back(e)
    end
    touch(e)
  end
  return pack_fields('<B', 1)
end

-- The endpoints in cooldown whose probe is due, at most `room` of them, those first that wait longest; for the one agent that
-- probes them until `ttl` has passed without it. A tenth of the interval early is not too early, or one turn would be missed.
local function prober(op)
  local key, found, due, fields, parts = pool .. 'p', pool .. 'h', {}, {}, {}
  local holder = call('GET', key)
  if holder and holder ~= op.agent then
    return pack_fields('<BI2', 0, 0)
  end
  call('SET', key, op.agent, 'PX', format('%d', op.ttl / 1000))
  if call('HLEN', found) > n_endpoints + 64 then
    call('DEL', found)
  end
  local all = probes()
  for i = 1, #endpoints do
    local e = endpoint_of(i)
    local p = all[e.id]
    local last = p and p.began == e.health.began and p.due or 0
    if e.health.cooling and not is_off(e) and (last + 0.9 * rule.every <= now or last > now) then
      due[#due + 1] = {index = i, last = last, over = p and p.over or 0, result = p and p.result or 0}
    end
  end
  if #due > op.room then
    table.sort(due, function(a, b)
      return a.last < b.last or (a.last == b.last and a.index < b.index)
    end)
  end
  for i = 1, #due < op.room and #due or op.room do
    local d = due[i]
    local e = endpoints[d.index]
    parts[i] = pack_fields('<I2d', d.index, e.health.began)
    fields[2 * i - 1], fields[2 * i] = e.id, pack_fields(FOUND, e.health.began, now, d.over, d.result)
  end
  if #parts > 0 then
    call('HSET', found, unpack(fields))
    call('PEXPIRE', found, MONTH_MS)
  end
  return pack_fields('<BI2', 1, #parts) .. table.concat(parts)
end

-- ---- the batch ----

local read = {}
read[KIND.NEXT] = function(op)
  local n
  op.tier, op.waiter, op.arrival, op.target, op.session, n, at = unpack_fields('<Bc8dI2c0I2c0I2', program, at)
  op.skip = {}
  for i = 1, n do
    op.skip[i], at = unpack_fields('<I2', program, at)
  end
end
read[KIND.REPORT] = function(op)
  local n
  op.ticket, op.outcome, op.status, op.hint, n, at = unpack_fields('<I2c0BI2dB', program, at)
  op.quota = {}
  for i = 1, n do
    local q = {}
    q.name, q.limit, q.left, q.absolute, q.reset, at = unpack_fields('<Bc0ddBd', program, at)
    op.quota[i] = q
  end
end
read[KIND.UNDO] = function(op)
  op.seq, at = unpack_fields('<d', program, at)
end
read[KIND.LEAVE] = function(op)
  op.waiter, at = unpack_fields('<c8', program, at)
end
read[KIND.ENABLE] = function(op)
  op.endpoint, at = unpack_fields('<I2', program, at)
end
read[KIND.PROBE] = function(op)
  op.endpoint, op.began, op.result, at = unpack_fields('<I2dB', program, at)
end
read[KIND.PROBER] = function(op)
  op.agent, op.ttl, op.room, at = unpack_fields('<c16dI2', program, at)
end

local run = {
  [KIND.NEXT] = next_endpoint,
  [KIND.REPORT] = function(op)
    return pack_fields('<B', report(op))
  end,
  [KIND.UNDO] = function(op)
    undo(op.seq)
    return ''
  end,
  [KIND.LEAVE] = function(op)
    tier_from(1)
    for tier in pairs(tiers_here) do
      leave_line(op.waiter, tier)
    end
    return ''
  end,
  [KIND.SHOW] = show, [KIND.NUMBERS] = numbers, [KIND.ENABLE] = enable, [KIND.PROBE] = probe, [KIND.PROBER] = prober}

if not secret then
  secret = sub(program, -16)
  call('HSET', pool, '#', secret)
end
for i = 1, n_ops do
  local op, kind = {}
  kind, at = unpack_fields('<B', program, at)
  if read[kind] then
    read[kind](op)
  end
  reply[i] = run[kind](op)
end
floor_check()

do
  local fields = {}
  for i = 1, #endpoints do
    local e = endpoints[i]
    if e.dirty then
      fields[#fields + 1], fields[#fields + 2] = 'e' .. e.id, endpoint_text(e)
    end
  end
  for id, e in pairs(strangers) do
    if e.dirty then
      fields[#fields + 1], fields[#fields + 2] = 'e' .. id, endpoint_text(e)
    end
  end
  for name, a in pairs(accounts) do
    if a.dirty then
      fields[#fields + 1], fields[#fields + 2] = 'a' .. name, account_text(a)
    end
  end
  -- What lasts is written once an hour; with an entry that never ends no key is made anew without it.
  if (vars.dirty or #fields > 0) and now - vars.kept > HOUR then
    vars.kept = now
    call('HSET', pool .. 'i', '-', '')
    call('ZADD', pool .. 'l', '+inf', '-')
    call('HSET', pool, '=', write_vars())
    call('PEXPIRE', pool, MONTH_MS)
    call('PEXPIRE', pool .. 'i', MONTH_MS)
    call('PEXPIRE', pool .. 'l', MONTH_MS)
  end
  if vars.dirty or #fields > 0 then
    fields[#fields + 1], fields[#fields + 2] = '=', write_vars()
  end
  for i = 1, #target_order do
    local text = target_save(target_order[i])
    if text then
      fields[#fields + 1], fields[#fields + 2] = 't', text
    end
  end
  for i = 1, #fields, 1000 do
    call('HSET', pool, unpack(fields, i, i + 999 < #fields and i + 999 or #fields))
  end
  for name, stop in pairs(remembered) do
    call('ZADD', pool .. 'T', 'GT', format('%.0f', stop), name)
  end
  if next(remembered) then
    call('ZREMRANGEBYSCORE', pool .. 'T', '-inf', format('%.0f', now))
    call('PEXPIRE', pool .. 'T', MONTH_MS)
  end
end
do
  local fresh = {}
  for i = 1, #added do
    local r = records[added[i]]
    if r then
      fresh[#fresh + 1], fresh[#fresh + 2] = format('%d', r.seq), record_text(r)
    end
  end
  if #fresh > 0 then
    call('HSET', pool .. 'i', unpack(fresh))
    call('ZADD', pool .. 'l', unpack(leases))
  end
  if #removed > 0 then
    call('HDEL', pool .. 'i', unpack(removed))
  end
  if #ended > 0 then
    call('ZREM', pool .. 'l', unpack(ended))
  end
  if #given_back > 0 then
    call('ZREM', pool .. 'x', unpack(given_back))
  end
end
return pack_fields('<c8dI2', stamp, now, #events) .. table.concat(events) .. table.concat(reply)
