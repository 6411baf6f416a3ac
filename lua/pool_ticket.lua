-- pool_ticket: what a ticket is, and what it was issued for.
--
-- Why atomic: a ticket counts once, whoever reports it.
--
-- A ticket is `serial.end of its lease.authenticator`: unguessable by the pool's secret, which stays in Redis. What it was issued
-- for is in the hash k:p{POOL}i by its serial, until it is reported or an hour after its lease; k:p{POOL}l has the ends of the
-- leases, k:p{POOL}x those which are over. A ticket that is genuine and has no entry was reported before.
local record, records, added, removed, leases, ended, given_back = {}, {}, {}, {}, {}, {}, {}
local RECORD = '<BBHdddBc0Hc0Hc0'
local SESSION_NEW, EXPIRED = 1, 2

function record.text(r)
  return pack_fields(RECORD, r.flags, r.tier, r.at, r.stop, r.tag, r.last, #r.id, r.id, #r.target, r.target, #r.session, r.session)
end

function record.new(seq, text)
  if not text then
    records[seq] = false
    return
  end
  local r = {seq = seq, flags = 0, tier = 0, at = 0, stop = 0, tag = 0, last = 0, id = '', target = '', session = '', index = false}
  r.flags, r.tier, r.at, r.stop, r.tag, r.last, r.id, r.target, r.session = unpack_fields(RECORD, text)
  r.index = index_of(r.id, r.at)
  records[seq] = r
end

-- Reads those of these serials at once.
function record.read(serials)
  local ask, wanted = {}, {}
  for k = 1, #serials do
    local seq = serials[k]
    if records[seq] == nil then
      records[seq] = false
      wanted[#wanted + 1], ask[#ask + 1] = seq, format('%d', seq)
    end
  end
  if #ask > 0 then
    local got = call('HMGET', pool .. 'i', unpack(ask))
    for k = 1, #ask do
      record.new(wanted[k], got[k])
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
  local seq = format('%d', r.seq)
  records[r.seq] = false
  removed[#removed + 1] = seq
  if r.flags >= EXPIRED then
    given_back[#given_back + 1] = seq
  else
    lands(r)
    ended[#ended + 1] = seq
  end
end

local function authenticator(text)
  return sub(redis.sha1hex(secret .. pool .. text .. secret), 1, 24)
end

-- The serial of a ticket that this pool issued and has not forgotten, or nil.
local function serial_of(ticket)
  local seq, stop, mac = string.match(ticket, '^(%x+)%.(%x+)%.(%x+)$')
  if not seq or #ticket > 80 or authenticator(sub(ticket, 1, -2 - #mac)) ~= mac then
    return
  end
  if tonumber(stop, 16) * 1000 + HOUR <= now then
    return
  end
  return tonumber(seq, 16)
end
