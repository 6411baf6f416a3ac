-- pool_ticket: what a ticket is, and what it was issued for.
--
-- Why atomic: a ticket counts once, whoever reports it.
--
-- A ticket is `serial.end of its lease.authenticator`: unguessable by the pool's secret, which stays in Redis. What it was issued
-- for is in the hash k:p{POOL}i by its serial, until it is reported or an hour after its lease; k:p{POOL}l has the ends of the
-- leases, k:p{POOL}x those which are over. A ticket that is genuine and has no entry was reported before.
-- Here it is known by the serial in decimal digits, as it is there; of those that are issued now only the text is kept.
local record, records, fresh, removed, leases, ended, given_back = {}, {}, {}, {}, {}, {}, {}
local RECORD = '<BBHdddBc0Hc0Hc0'
local RECORD_OF_TICKET = RECORD .. 'c0'
local SESSION_NEW, EXPIRED = 1, 2
-- Until when those last that are issued now.
local lease_end = now + rule.lease
local lease_score, lease_digits = format('%.0f', lease_end), format('.%x', (lease_end - lease_end % 1000) / 1000)

-- What a report and a lease's end need to know of it, or false: there is none.
function record.of(key)
  local text = records[key]
  if type(text) == 'string' then
    local flags, tier, at, stop, _, _, id, target, _, place = unpack_fields(RECORD, text)
    records[key] = {key = key, text = text, flags = flags, tier = tier, index = index_of(id, at) or false, stop = stop, id = id,
      target = target, ticket = sub(text, place)}
  end
  return records[key]
end

-- All that it begins with: flags, tier, place, end of its lease, by how much the tag moved, the ticket before, id, target, session.
function record.unpack(r)
  return unpack_fields(RECORD, r.text)
end

-- Reads those of these keys at once.
function record.read(keys)
  local ask, n = {}, 0
  for k = 1, #keys do
    local key = keys[k]
    if records[key] == nil then
      records[key], n = false, n + 1
      ask[n] = key
    end
  end
  if n > 0 then
    local got = call('HMGET', pool .. 'i', unpack(ask))
    for k = 1, n do
      records[ask[k]] = got[k]
    end
  end
end

-- It is no longer in flight. An endpoint that the definition does not have may come back to it.
local strangers = {}
local function lands(r)
  if r.index then
    fly(r.index, -1)
    return
  end
  local text = strangers[r.id] or call('HGET', pool, 'o' .. r.id)
  if text then
    local _, tag, last, flying, place = unpack_fields('<dddI4', text)
    strangers[r.id] = pack_fields('<dddI4', now, tag, last, flying > 0 and flying - 1 or 0) .. sub(text, place)
    changes = changes + 1
  end
end

function record.drop(r)
  local key = r.key
  records[key] = false
  removed[#removed + 1] = key
  if r.flags >= EXPIRED then
    given_back[#given_back + 1] = key
  else
    lands(r)
    ended[#ended + 1] = key
  end
end

local sha1hex, match = redis.sha1hex, string.match
local function authenticator(text)
  return sub(sha1hex(salt .. text .. secret), 1, 24)
end

-- The serial that a ticket claims to have, or nil.
local function serial_of(ticket)
  local seq = #ticket <= 80 and match(ticket, '^(%x+)%.')
  return seq and #seq <= 13 and tonumber(seq, 16) or nil -- 52 bits: a number holds it exactly
end

-- Whether this pool issued it and has not forgotten it. `r`: the entry of its serial; it has the ticket, but for an older one.
local function is_known(ticket, r)
  if r and r.ticket == ticket then
    return r.stop - r.stop % 1000 + HOUR > now
  end
  local text, stop, mac = match(ticket, '^(%x+%.(%x+))%.(%x+)$')
  return text and authenticator(text) == mac and tonumber(stop, 16) * 1000 + HOUR > now
end
