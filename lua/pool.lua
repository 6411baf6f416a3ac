-- pool, the last piece: the operations of a batch, one after the other, and what they have changed is written.
--
-- Why atomic: NEXT chooses, counts and issues in one step, REPORT judges and counts in one, so in-flight never drifts.
local reply = {}
do
  local NEXT, REPORT, SHOW = 1, 2, 4
  local NONE = {}
  -- What is to be taken with the endpoint.
  local function read_permits(n)
    local p = {before = {}, behind = {}}
    for k = 1, n do
      local has_gap
      has_gap, p.before[k], at = unpack_fields('<BHc0', program, at)
      if has_gap == 1 then
        p.behind[k], at = unpack_fields('<Hc0', program, at)
      end
    end
    p.own, p.most, p.program, at = unpack_fields('<HdI4c0', program, at)
    return p
  end

  -- Many ask for the same: they share one.
  local same = {}
  local function read_next()
    local tier, waiter, arrival, target, session, n_keys, n
    tier, waiter, arrival, target, session, n_keys, n, at = unpack_fields('<Bc8dHc0Hc0HH', program, at)
    if n_keys == 0 and n == 0 and same.tier == tier and same.target == target and same.session == session and
      same.waiter == waiter and same.arrival == arrival then
      return same
    end
    local skip = n > 0 and {} or NONE
    for i = 1, n do
      skip[i], at = unpack_fields('<H', program, at)
    end
    local op = {tier = tier, waiter = waiter, arrival = arrival, target = target, session = session, skip = skip,
      permits = n_keys > 0 and read_permits(n_keys)}
    same = n_keys == 0 and n == 0 and op or same
    return op
  end

  local function read_report()
    local ticket, outcome, status, hint, n, quota
    ticket, outcome, status, hint, n, at = unpack_fields('<Hc0BHdB', program, at)
    quota = n > 0 and {} or NONE
    for i = 1, n do
      local q = {}
      q.name, q.limit, q.left, q.absolute, q.reset, at = unpack_fields('<Bc0ddBd', program, at)
      quota[i] = q
    end
    local seq = serial_of(ticket)
    return {ticket = ticket, seq = seq, key = seq and format('%d', seq), outcome = outcome, status = status, hint = hint, quota = quota}
  end

  -- What the batch needs is read at once.
  local kinds, ops, keys, n_keys, asks, others = {}, {}, {}, 0, false, nil
  for i = 1, n_ops do
    local kind, op = byte(program, at), nil
    at = at + 1
    if kind == NEXT then
      op, asks = read_next(), true
    elseif kind == REPORT then
      op = read_report()
    else
      others = others or other_operations()
      op, asks = others.read(kind), asks or kind == SHOW
    end
    if op.key then
      n_keys = n_keys + 1
      keys[n_keys] = op.key
    end
    kinds[i], ops[i] = kind, op
  end
  record.read(keys)
  local reported = {}
  for k = 1, n_keys do
    local r = record.of(keys[k])
    reported[#reported + 1] = r and r.index or nil
  end
  endpoints_read(reported)
  if asks and rule.kind == 1 then
    account.read_all()
  end

  local REPORTED = {[0] = '\0', '\1', '\2'}
  for i = 1, n_ops do
    local kind, op = kinds[i], ops[i]
    if kind == NEXT then
      reply[i] = next_endpoint(op)
    elseif kind == REPORT then
      reply[i] = REPORTED[report(op)]
    else
      reply[i] = others.run[kind](op)
    end
  end
end
floor_check()

do
  local fields = {}
  for i, e in pairs(endpoints) do
    if e.dirty then
      local quality = e.health.n * 64 + health.failures(e.health)
      if quality ~= QUALITY.values[i] then
        QUALITY.values[i], QUALITY.dirty = quality, true
        row_changed(i)
      end
      fields[#fields + 1], fields[#fields + 2] = 'e' .. e.id, endpoint_text(e)
    end
  end
  for id, text in pairs(strangers) do
    fields[#fields + 1], fields[#fields + 2] = 'o' .. id, text
  end
  if #fresh > 0 then
    TAG.dirty, LAST.dirty, TICKETS.dirty = true, true, true
  end
  local runs = changed_runs()
  for k = 1, #columns do
    if columns[k].dirty or is_new then
      fields[#fields + 1], fields[#fields + 2] = columns[k].field, column_text(columns[k], runs)
    end
  end
  if is_new then
    fields[#fields + 1], fields[#fields + 2] = 'r', roster
  end
  if special_dirty then
    fields[#fields + 1], fields[#fields + 2] = 'S', specials_text()
  end
  for name, a in pairs(accounts) do
    if a.dirty then
      fields[#fields + 1], fields[#fields + 2] = 'a' .. name, account.text(a)
    end
  end
  -- What lasts is written once an hour; with an entry that never ends no key is made anew without it, and with one of more than
  -- 64 bytes Redis looks none up in a list.
  if (vars.dirty or #fields > 0) and now - vars.kept > HOUR then
    vars.kept = now
    local lasts = string.rep('-', 65)
    call('HSET', pool .. 'i', lasts, '')
    call('ZADD', pool .. 'l', '+inf', lasts)
    call('HSET', pool, '=', write_vars())
    call('PEXPIRE', pool, MONTH_MS)
    call('PEXPIRE', pool .. 'i', MONTH_MS)
    call('PEXPIRE', pool .. 'l', MONTH_MS)
  end
  if vars.dirty or #fields > 0 then
    fields[#fields + 1], fields[#fields + 2] = '=', write_vars()
  end
  for i = 1, #target_order do
    local text = target.save(target_order[i])
    if text then
      fields[#fields + 1], fields[#fields + 2] = 't', text
    end
  end
  call_with('HSET', pool, fields)
  for name, stop in pairs(remembered) do
    call('ZADD', pool .. 'T', 'GT', format('%.0f', stop), name)
  end
  if next(remembered) then
    call('ZREMRANGEBYSCORE', pool .. 'T', '-inf', format('%.0f', now))
    call('PEXPIRE', pool .. 'T', MONTH_MS)
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
return pack_fields('<c8dI2', stamp, now, #events) .. table.concat(events) .. table.concat(reply)
end)()
