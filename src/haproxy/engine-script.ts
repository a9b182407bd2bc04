// What HAProxy itself cannot do and its Lua can, for an HAProxy that we drive (`lua-load`). What `render haproxy` writes
// does without.
//
// PROXY headers: `expect-proxy` makes a header mandatory for everyone in a list, reads only one, and replaces the client
// by an agent's source. The script reads a header only where one was sent, first a balancer's and then an agent's, and
// removes it from the stream, so that what follows is seen as if it came first. Variables: `sess.client`,
// `sess.client_port` from a balancer's header; `sess.origin`, `sess.origin_port`, `sess.id` from an agent's; `txn.reason`
// if one is not acceptable.
//
// Refusals: `tcp-request content lua.refusal` answers a client that is refused for `txn.reason`, in its `txn.protocol`, in
// a frontend or a backend; a rule that rejects must follow. (A service would wait for the client's FIN, and be logged
// only then.)
//
// HTTP: `http-request lua.drop_named` removes the headers that Connection names.

import type { Listener } from '../config/config.ts';
import { HTTP } from '../gateway/shared/rows.ts';
import { refusalBytes } from '../gateway/stages/refusal.ts';
import { MAX_PROXY_HEADER } from '../wire/proxy-protocol.ts';
import { aclLines } from './section.ts';

/** HAProxy's own wait: on 2.6 a script that waits for the first bytes is sometimes not woken by them. */
const SOME_BYTE = '{ req.payload(0,1) -m found }';

/** The longest line of version 1, with CRLF. */
const MAX_V1 = 107;

/** HAProxy does not count what the script sends. */
export const ALERT_BYTES = 7;
export const OVER_LIMIT_ANSWER = Buffer.from(refusalBytes('over-limit', HTTP)).toString('latin1');

/** For `lua-load`. */
export const ENGINE_SCRIPT = String.raw`-- PROXY headers and TLS alerts; written by causeway.

local SIGNATURE = '\r\n\r\n\0\r\nQUIT\n'
local MAX_V2 = ${MAX_PROXY_HEADER}
local MAX_V1 = ${MAX_V1}
local CRC32C = 0x03
-- By the upper half of byte 13: unspecified, IPv4, IPv6, unix.
local BLOCKS = { [0] = 0, [1] = 12, [2] = 36, [3] = 216 }

local crc_table = {}
for byte = 0, 255 do
  local crc = byte
  for _ = 1, 8 do
    crc = (crc & 1) == 1 and (crc >> 1) ~ 0x82F63B78 or crc >> 1
  end
  crc_table[byte] = crc
end

local function crc32c(text)
  local crc = 0xFFFFFFFF
  for at = 1, #text do
    crc = (crc >> 8) ~ crc_table[(crc ~ text:byte(at)) & 0xFF]
  end
  return crc ~ 0xFFFFFFFF
end

local function address(raw)
  if #raw == 16 and raw:sub(1, 12) == string.rep('\0', 10) .. '\255\255' then raw = raw:sub(13) end
  if #raw == 4 then return string.format('%d.%d.%d.%d', raw:byte(1, 4)) end
  local groups = {}
  for at = 1, 16, 2 do groups[#groups + 1] = string.format('%x', string.unpack('>I2', raw, at)) end
  return table.concat(groups, ':')
end

-- The header's length in bytes, and what it says; nil if it is not acceptable.
local function parse_v2(channel)
  local fixed = channel:data(0, 16)
  if fixed == nil or #fixed < 16 then return nil end
  local command, family, length = fixed:byte(13), fixed:byte(14), string.unpack('>I2', fixed, 15)
  local is_local = command == 0x20
  if command ~= 0x20 and command ~= 0x21 or 16 + length > MAX_V2 then return nil end
  if not is_local and ((family >> 4) > 3 or (family & 15) > 2) then return nil end
  local block = BLOCKS[family >> 4] or length
  if is_local and block > length then block = 0 end
  if block > length then return nil end
  local all = channel:data(0, 16 + length)
  if all == nil or #all < 16 + length then return nil end
  local header = { tlvs = {} }
  local width = (family >> 4) == 1 and 4 or 16
  if not is_local and ((family >> 4) == 1 or (family >> 4) == 2) then
    header.source = address(all:sub(17, 16 + width))
    header.port, header.destination_port = string.unpack('>I2I2', all, 17 + 2 * width)
    header.destination = address(all:sub(17 + width, 16 + 2 * width))
  end
  local at = 17 + block
  while at <= 16 + length do
    if at + 2 > 16 + length then return nil end
    local kind, size = string.unpack('>BI2', all, at)
    if at + 2 + size > 16 + length then return nil end
    local value = all:sub(at + 3, at + 2 + size)
    if kind == CRC32C then
      if size ~= 4 then return nil end
      local zeroed = all:sub(1, at + 2) .. '\0\0\0\0' .. all:sub(at + 7)
      if crc32c(zeroed) ~= string.unpack('>I4', value) then return nil end
    end
    header.tlvs[#header.tlvs + 1] = { kind = kind, value = value }
    at = at + 3 + size
  end
  return 16 + length, header
end

local function parse_v1(channel)
  local line = channel:line(0, MAX_V1)
  if line == nil or line:sub(-2) ~= '\r\n' then return nil end
  if line:match('^PROXY UNKNOWN[ \r]') then return #line, { tlvs = {} } end
  local family, source, destination, port, destination_port =
    line:match('^PROXY (TCP[46]) ([%x:.]+) ([%x:.]+) (%d+) (%d+)\r\n$')
  if family == nil or tonumber(port) > 65535 or tonumber(destination_port) > 65535 then return nil end
  if (family == 'TCP4') ~= (source:find(':', 1, true) == nil) then return nil end
  return #line, {
    source = source, port = tonumber(port),
    destination = destination, destination_port = tonumber(destination_port), tlvs = {},
  }
end

-- true if there was a header that is now removed, false if there was none; nil, with txn.reason, if it is not acceptable.
local function take(txn)
  local first = txn.req:data(0, 1)
  local length, header
  if first == '\r' then
    if txn.req:data(0, 12) ~= SIGNATURE then return false end
    length, header = parse_v2(txn.req)
  elseif first == 'P' and txn.req:data(0, 6) == 'PROXY ' then
    length, header = parse_v1(txn.req)
  else
    return false
  end
  if length == nil then
    txn:set_var('txn.reason', 'bad-proxy-header')
    return nil
  end
  txn.req:remove(0, length)
  return true, header
end

core.register_action('balancer_header', { 'tcp-req' }, function(txn)
  local found, header = take(txn)
  txn:set_var('sess.balancer_read', found and 'header' or 'none')
  if found and header.source then
    txn:set_var('sess.client', header.source)
    txn:set_var('sess.client_port', header.port)
    txn:set_var('sess.destination', header.destination)
    txn:set_var('sess.destination_port', header.destination_port)
  end
end)

core.register_action('agent_header', { 'tcp-req' }, function(txn, types)
  local found, header = take(txn)
  txn:set_var('sess.agent_read', found and 'header' or 'none')
  if not found then return end
  if header.source then
    txn:set_var('sess.origin', header.source)
    txn:set_var('sess.origin_port', header.port)
  end
  local id
  for _, tlv in ipairs(header.tlvs) do
    if (',' .. types .. ','):find(',' .. tlv.kind .. ',', 1, true) then
      if id ~= nil and id ~= tlv.value then
        txn:set_var('txn.reason', 'bad-proxy-header')
        return
      end
      id = tlv.value
    end
  end
  if id ~= nil then txn:set_var('sess.id', id) end
end, 1)

-- RFC 8446 6.2: unrecognized_name and access_denied; internal_error for all others.
local ALERTS = {
  ['no-sni'] = 112, ['unknown-host'] = 112,
  ['not-allowed'] = 49, ['unknown-cluster'] = 49,
}

core.register_action('refusal', { 'tcp-req' }, function(txn)
  local protocol, reason = txn:get_var('txn.protocol'), txn:get_var('txn.reason')
  if protocol == 'tls' then txn.res:send('\21\3\1\0\2\2' .. string.char(ALERTS[reason] or 80)) end
  -- A request is refused where it is routed; here only a source that has too many connections.
  if protocol == 'http' and reason == 'over-limit' then txn.res:send(${JSON.stringify(OVER_LIMIT_ANSWER)}) end
end)

-- RFC 9110 7.6.1; these the backend relies on, or HAProxy itself sees to them.
local KEPT = {
  ['connection'] = true, ['host'] = true, ['upgrade'] = true, ['te'] = true, ['content-length'] = true,
  ['transfer-encoding'] = true, ['close'] = true,
}

core.register_action('drop_named', { 'http-req' }, function(txn)
  for _, value in pairs(txn.http:req_get_headers()['connection'] or {}) do
    for name in value:lower():gmatch('[^,%s]+') do
      if not KEPT[name] and not name:match('^x[-_]forwarded[-_]') then txn.http:req_del_header(name) end
    end
  end
end)
`;

/**
 * Rules for a frontend in TCP mode, before all others that look at `src` or at the bytes. Rules are evaluated from the
 * first again while bytes are missing: what was read is not read again.
 */
export function headerRules({
  agents,
  balancers,
  idTlv,
}: Pick<Listener, 'agents' | 'balancers' | 'idTlv'>): readonly string[] {
  const content = (rule: string) => `tcp-request content ${rule}`;
  return [
    ...(balancers.length === 0
      ? []
      : [
          ...aclLines('from_balancer', 'src', balancers),
          content(`lua.balancer_header if from_balancer !{ var(sess.balancer_read) -m found } ${SOME_BYTE}`),
          // Set together by the header; `sess.client` alone may have been set before.
          ...[
            ['set-src', 'client'],
            ['set-src-port', 'client_port'],
            ['set-dst', 'destination'],
            ['set-dst-port', 'destination_port'],
          ].map(([action, name]) =>
            content(`${action} var(sess.${name}) if { var(sess.destination) -m found }`),
          ),
        ]),
    ...(agents.length === 0
      ? []
      : [
          ...aclLines('from_agent', 'src', agents),
          content(
            `lua.agent_header ${idTlv.join(',')} if from_agent !{ var(sess.agent_read) -m found } !{ var(txn.reason) -m found } ${SOME_BYTE}`,
          ),
          // A further header is one too many.
          ...[
            '{ req.payload(0,1) -m bin 0d }',
            '{ req.payload(0,1) -m str P } { req.payload(0,4) -m str PROX }',
          ].map(start =>
            content(
              `set-var(txn.reason) str(bad-proxy-header) if { var(sess.agent_read) -m str header } ${start}`,
            ),
          ),
        ]),
  ];
}
