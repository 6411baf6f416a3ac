-- pool_load: the state is read, as much of it as every batch needs, and brought up to now.
--
-- Why atomic: what one batch has read nobody changes before it writes.
-- By their indices, in their order.
local function specials()
  local list = {}
  for i in pairs(special) do
    list[#list + 1] = i
  end
  table.sort(list)
  return list
end

local function specials_text()
  local list, parts = specials(), {pack_fields('<d', rule.ramp)}
  for k = 1, #list do
    parts[#parts + 1] = is_special(special[list[k]]) and pack_fields('<H', list[k]) or nil
  end
  return table.concat(parts)
end

local is_new
do
  -- What the columns say of an endpoint that is in the roster no more is in front of the rest of it, behind when it was put there.
  local OUT = '<dddI4I4H'

  -- The columns by id.
  local function roster_read(was, texts_was)
    local found, order, place, id = {}, {}, 1
    while place <= #was do
      id, place = unpack_fields('<Bc0', was, place)
      local values, i = {}, #order
      for k = 1, #columns do
        local c = columns[k]
        values[k] = unpack_fields('<' .. c.form, texts_was[k], i * c.width + 1)
      end
      found[id], order[i + 1] = values, id
    end
    return found, order
  end

  -- The definition's endpoints are not those of the roster: those that it lacks are put aside, those that come are fetched.
  local function roster_change(was, texts_was)
    local found, order = roster_read(was, texts_was)
    local fields, gone, ids, stay, come, outs = {}, {}, {}, {}, {}, {}
    for i = 1, n_endpoints do
      local id = id_of(i)
      ids[i], stay[id] = id, true
      if not found[id] then
        come[#come + 1], outs[#outs + 1] = id, 'o' .. id
      end
    end
    local got = read_fields(outs)
    for k = 1, #come do
      local text = got[k]
      if text then
        local values = {unpack_fields(OUT, text)}
        local rest = sub(text, table.remove(values))
        table.remove(values, 1)
        found[come[k]], gone[#gone + 1] = values, outs[k]
        if rest ~= '' then
          fields[#fields + 1], fields[#fields + 2] = 'e' .. come[k], rest
        end
      end
    end
    for i = 1, n_endpoints do
      local values = found[ids[i]]
      row_changed(i)
      for k = 1, values and #columns or 0 do
        columns[k].values[i] = values[k]
      end
    end
    local left, rests = {}, {}
    for i = 1, #order do
      if not stay[order[i]] then
        left[#left + 1], rests[#rests + 1] = order[i], 'e' .. order[i]
      end
    end
    got = read_fields(rests)
    for k = 1, #left do
      fields[#fields + 1], fields[#fields + 2] = 'o' .. left[k], pack_fields(OUT, now, unpack(found[left[k]])) .. (got[k] or '')
      gone[#gone + 1] = rests[k]
    end
    call_with('HSET', pool, fields)
    call_with('HDEL', pool, gone)
  end

  -- Those of which more must be known: as they were listed, unless what they were listed by is another now.
  local function specials_read(text)
    if text and unpack_fields('<d', text) == rule.ramp then
      local n = (#text - 8) / 2
      local list = read_all(text, 'H', 2, 9, n)
      list[n + 1] = nil
      endpoints_read(list)
      for k = 1, n do
        special[list[k]] = endpoint_of(list[k])
      end
      return
    end
    endpoints_read_all()
    for i = 1, n_endpoints do
      local e = texts[i] and endpoint_of(i)
      special[i] = e and is_special(e) and e or nil
    end
    special_dirty = true
  end

  local got = call('HMGET', pool, '=', '#', 't', 'r', 'S', 'T', 'L', 'F', 'C', 'Q')
  read_vars(got[1])
  secret, whole_text = got[2], got[3]
  if not secret then
    secret = sub(program, -16)
    call('HSET', pool, '#', secret)
  end
  salt = secret .. pool
  target.new('', whole_text or nil)
  if vars.fresh then
    vars.dirty = true
  end
  is_new = got[4] ~= roster
  for k = 1, #columns do
    columns[k].text = is_new and string.rep('\0', columns[k].width * n_endpoints) or got[5 + k]
  end
  if is_new then
    roster_change(got[4] or '', {unpack(got, 6, 10)})
  end
  specials_read(not is_new and got[5])
end

-- Leases that are over.
local function expire()
  local over = call('ZRANGEBYSCORE', pool .. 'l', '-inf', format('%.0f', now), 'LIMIT', 0, 1000)
  if #over > 0 then
    call('ZREM', pool .. 'l', unpack(over))
    local again, late = {}, {}
    record.read(over)
    for i = 1, #over do
      local r = record.of(over[i])
      if r then
        lands(r)
        r.flags = r.flags + EXPIRED
        r.text = pack_fields('<B', r.flags) .. sub(r.text, 2)
        again[#again + 1], again[#again + 2] = over[i], r.text
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

if rule.direct == 1 then
  local list = specials()
  for k = 1, #list do
    local e = special[list[k]]
    if e.health.cooling and health.wait(e.health, rule.health == 1) == 0 then
      endpoint_back(e)
    end
  end
end
