-- Wireshark dissector for CBCB frames (EtherType 0x88B5), as docs/reference/wire-format.md defines them.
--
--   tshark -X lua_script:cbcb.lua -r FILE -Y 'cbcb.type == 1 && cbcb.predicate'
--
-- Field names are those of the Scapy layers (router/wire/layers.py) after "cbcb."; docs/how-to/wireshark.md lists
-- what stands beside them. Bytes are read from Lua strings, and nothing is shown that nobody looks at: calls into
-- Wireshark are what costs. Runs on Lua 5.2 to 5.4.

local cbcb = Proto("cbcb", "Content-based networking (CBCB)")

-- generated: constants

local ETHERTYPE = 0x88B5
local VERSION, HEADER_LENGTH = 1, 32
local TLV_HEADER_LENGTH = 5
local MAX_BODY_LENGTH, STRING_MAX_BYTES = 16777216, 65535
local MAX_DESTINATIONS = 65536
local BITS_MAX, HASHES_MAX = 4096, 16
local FRAME_TYPES = {
  [1] = "MSG",
  [2] = "RA",
  [3] = "SR",
  [4] = "UR",
  [5] = "HELLO",
  [7] = "COMMIT",
  [8] = "ACK",
  [9] = "SUB",
  [10] = "PUB",
  [11] = "OVERLOAD",
  [12] = "FLUSH",
  [13] = "XMSG",
  [14] = "XRA",
  [15] = "XUR",
  [16] = "TABLE",
  [17] = "RECEIPT",
}
local VALUE_TYPES = { [1] = "string", [2] = "integer", [3] = "double", [4] = "boolean" }
local OPERATORS = {
  [1] = "=",
  [2] = "!=",
  [3] = "<",
  [4] = ">",
  [5] = "<=",
  [6] = ">=",
  [7] = "=*",
  [8] = "*=",
  [9] = "**",
  [10] = "any",
}
local ENCODINGS = { [1] = "slides", [2] = "ranges" }
local TLV_TYPES = {
  [1] = "ATTRIBUTE",
  [2] = "FILTER",
  [3] = "TIMEOUT",
  [4] = "INCARNATION",
  [5] = "NEIGHBOUR",
  [7] = "OLDEST_EPOCH",
  [8] = "ACKNOWLEDGED",
  [9] = "SUBTREES",
  [10] = "DESTINATIONS",
  [11] = "DESTINATION_MAP",
  [12] = "CLASS_NODE",
  [16] = "SUBSCRIPTION",
  [17] = "PUBLICATION",
  [18] = "ROUND",
  [19] = "OFFERED",
  [32] = "KEY",
  [33] = "BLOOM",
  [34] = "SEALED",
  [64] = "TREE_CLASS",
  [65] = "CLASS_OF",
}
local MSG = 1
local RA = 2
local SR = 3
local UR = 4
local HELLO = 5
local COMMIT = 7
local ACK = 8
local SUB = 9
local PUB = 10
local OVERLOAD = 11
local FLUSH = 12
local XMSG = 13
local XRA = 14
local XUR = 15
local TABLE = 16
local RECEIPT = 17
local ATTRIBUTE = 1
local FILTER = 2
local TIMEOUT = 3
local INCARNATION = 4
local NEIGHBOUR = 5
local OLDEST_EPOCH = 7
local ACKNOWLEDGED = 8
local SUBTREES = 9
local DESTINATIONS = 10
local DESTINATION_MAP = 11
local CLASS_NODE = 12
local SUBSCRIPTION = 16
local PUBLICATION = 17
local ROUND = 18
local OFFERED = 19
local KEY = 32
local BLOOM = 33
local SEALED = 34
local TREE_CLASS = 64
local CLASS_OF = 65
local STRING = 1
local INTEGER = 2
local DOUBLE = 3
local BOOLEAN = 4
local ANY = 10
local STRING_ONLY = { [7] = true, [8] = true, [9] = true }
local CONFIRMED = { [RA] = true, [SR] = true, [UR] = true, [XRA] = true, [XUR] = true }
local TAGGED, SIGNED, RELIABLE = 4, 8, 16
-- The fields of the header: name, offset, bytes.
local HEADER = {
  { "version", 0, 1 },
  { "type", 1, 1 },
  { "flags", 2, 1 },
  { "hop_limit", 3, 1 },
  { "issuer", 4, 4 },
  { "seq", 8, 8 },
  { "epoch", 16, 4 },
  { "total_length", 20, 4 },
  { "fragment_index", 24, 2 },
  { "fragment_count", 26, 2 },
  { "payload_length", 28, 2 },
  { "reserved", 30, 2 },
}
-- The fields of the trailer: name, bytes; the tags follow.
local TRAILER = { { "hop_key", 4 }, { "hop_counter", 8 }, { "tag_count", 1 } }
local TRAILER_LENGTH, TAG_BYTES = 13, 16
local SIGNATURE_BYTES = 64
-- TLVs that hold numbers only: name and bytes of each.
local LAYOUTS = {
  [TIMEOUT] = { { "timeout_us", 4 } },
  [INCARNATION] = { { "incarnation", 4 } },
  [NEIGHBOUR] = { { "interface", 2 }, { "node", 4 } },
  [OLDEST_EPOCH] = { { "oldest_epoch", 4 } },
  [ACKNOWLEDGED] = { { "acknowledged", 1 } },
  [CLASS_NODE] = { { "class_node", 4 } },
  [SUBSCRIPTION] = { { "round", 4 }, { "nonce", 4 }, { "remaining", 4 }, { "lifetime_left_us", 8 }, { "freshness_us", 8 }, { "subscription_flags", 1 } },
  [PUBLICATION] = { { "publication_source", 4 }, { "publication_seq", 8 }, { "age_us", 8 }, { "publication_flags", 1 } },
  [ROUND] = { { "round", 4 } },
  [OFFERED] = { { "publication_source", 4 }, { "publication_seq", 8 } },
  [KEY] = { { "key_id", 4 }, { "set_bits", 2 }, { "hashes", 1 }, { "encoding", 1 } },
}
-- The TLVs that each frame type may have, and those that it must have.
local ONCE, MANY = 1, 2
local ALLOWED = {
  [MSG] = { [DESTINATIONS] = ONCE, [DESTINATION_MAP] = ONCE, [ATTRIBUTE] = MANY },
  [RA] = { [FILTER] = MANY },
  [SR] = { [TIMEOUT] = ONCE },
  [UR] = { [CLASS_NODE] = MANY, [FILTER] = MANY },
  [HELLO] = { [INCARNATION] = ONCE },
  [COMMIT] = { [OLDEST_EPOCH] = ONCE },
  [ACK] = { [ACKNOWLEDGED] = ONCE },
  [SUB] = { [SUBSCRIPTION] = ONCE, [OFFERED] = MANY, [FILTER] = MANY },
  [PUB] = { [DESTINATIONS] = ONCE, [DESTINATION_MAP] = ONCE, [PUBLICATION] = ONCE, [ATTRIBUTE] = MANY },
  [OVERLOAD] = { [ROUND] = ONCE },
  [FLUSH] = { [PUBLICATION] = ONCE, [ATTRIBUTE] = MANY },
  [XMSG] = { [DESTINATIONS] = ONCE, [DESTINATION_MAP] = ONCE, [KEY] = ONCE, [BLOOM] = ONCE, [SEALED] = ONCE },
  [XRA] = { [KEY] = MANY, [BLOOM] = MANY },
  [XUR] = { [KEY] = MANY, [BLOOM] = MANY },
  [TABLE] = { [NEIGHBOUR] = MANY, [TREE_CLASS] = MANY, [CLASS_OF] = ONCE, [SUBTREES] = ONCE },
  [RECEIPT] = { [ACKNOWLEDGED] = ONCE },
}
local REQUIRED = {
  [SR] = { TIMEOUT },
  [HELLO] = { INCARNATION },
  [COMMIT] = { OLDEST_EPOCH },
  [ACK] = { ACKNOWLEDGED },
  [SUB] = { SUBSCRIPTION },
  [PUB] = { PUBLICATION },
  [OVERLOAD] = { ROUND },
  [FLUSH] = { PUBLICATION },
  [XMSG] = { KEY, BLOOM, SEALED },
  [TABLE] = { CLASS_OF },
  [RECEIPT] = { ACKNOWLEDGED },
}
-- The names of the bits of a field.
local BITS = {
  flags = { "flags.partial", "flags.identified", "flags.tagged", "flags.signed", "flags.reliable" },
  subscription_flags = { "subscription_flags.refreshed", "subscription_flags.top_up" },
  publication_flags = { "publication_flags.pending", "publication_flags.custody", "publication_flags.taken", "publication_flags.refused" },
}
local fields = {
  version = ProtoField.uint8("cbcb.version", "Version"),
  type = ProtoField.uint8("cbcb.type", "Type", base.DEC, FRAME_TYPES),
  flags = ProtoField.uint8("cbcb.flags", "Flags", base.HEX),
  ["flags.partial"] = ProtoField.bool("cbcb.flags.partial", "Partial update reply", 8, nil, 1),
  ["flags.identified"] = ProtoField.bool("cbcb.flags.identified", "Identified receiver advertisement", 8, nil, 2),
  ["flags.tagged"] = ProtoField.bool("cbcb.flags.tagged", "Tagged", 8, nil, 4),
  ["flags.signed"] = ProtoField.bool("cbcb.flags.signed", "Signed", 8, nil, 8),
  ["flags.reliable"] = ProtoField.bool("cbcb.flags.reliable", "Reliable", 8, nil, 16),
  hop_limit = ProtoField.uint8("cbcb.hop_limit", "Hop limit"),
  issuer = ProtoField.uint32("cbcb.issuer", "Issuer"),
  seq = ProtoField.uint64("cbcb.seq", "Sequence or request number"),
  epoch = ProtoField.uint32("cbcb.epoch", "Epoch"),
  total_length = ProtoField.uint32("cbcb.total_length", "Length of the whole body"),
  fragment_index = ProtoField.uint16("cbcb.fragment_index", "Fragment index"),
  fragment_count = ProtoField.uint16("cbcb.fragment_count", "Fragment count"),
  payload_length = ProtoField.uint16("cbcb.payload_length", "Length of the body in this frame"),
  reserved = ProtoField.uint16("cbcb.reserved", "Reserved"),
  signature = ProtoField.bytes("cbcb.signature", "Signature"),
  hop_key = ProtoField.uint32("cbcb.hop_key", "Key of the hop"),
  hop_counter = ProtoField.uint64("cbcb.hop_counter", "Counter of the hop"),
  tag_count = ProtoField.uint8("cbcb.tag_count", "Number of tags"),
  hop_tag = ProtoField.bytes("cbcb.hop_tag", "Tag of the hop"),
}
-- The fields inside a body.
local body_fields = {
  name_length = ProtoField.uint8("cbcb.name_length", "Length of the name"),
  attribute_name = ProtoField.string("cbcb.attribute_name", "Name", base.UNICODE),
  value_type = ProtoField.uint8("cbcb.value_type", "Value type", base.DEC, VALUE_TYPES),
  value = ProtoField.string("cbcb.value", "Value", base.UNICODE),
  ["value.string"] = ProtoField.string("cbcb.value.string", "Value, string", base.UNICODE),
  ["value.integer"] = ProtoField.int64("cbcb.value.integer", "Value, integer"),
  ["value.double"] = ProtoField.double("cbcb.value.double", "Value, double"),
  ["value.boolean"] = ProtoField.bool("cbcb.value.boolean", "Value, boolean"),
  constraints = ProtoField.none("cbcb.constraints", "Constraint"),
  timeout_us = ProtoField.uint32("cbcb.timeout_us", "Timeout (us)"),
  incarnation = ProtoField.uint32("cbcb.incarnation", "Incarnation"),
  interface = ProtoField.uint16("cbcb.interface", "Interface"),
  node = ProtoField.uint32("cbcb.node", "Node"),
  oldest_epoch = ProtoField.uint32("cbcb.oldest_epoch", "Oldest epoch"),
  acknowledged = ProtoField.uint8("cbcb.acknowledged", "Acknowledged type", base.DEC, FRAME_TYPES),
  subtrees = ProtoField.bytes("cbcb.subtrees", "Subtrees"),
  destinations = ProtoField.none("cbcb.destinations", "Destination"),
  first_destination = ProtoField.uint32("cbcb.first_destination", "First destination"),
  destination_bits = ProtoField.bytes("cbcb.destination_bits", "Destinations"),
  class_node = ProtoField.uint32("cbcb.class_node", "Node of a class"),
  round = ProtoField.uint32("cbcb.round", "Round"),
  nonce = ProtoField.uint32("cbcb.nonce", "Nonce"),
  remaining = ProtoField.uint32("cbcb.remaining", "Remaining publications"),
  lifetime_left_us = ProtoField.uint64("cbcb.lifetime_left_us", "Lifetime left (us)"),
  freshness_us = ProtoField.uint64("cbcb.freshness_us", "Freshness (us)"),
  subscription_flags = ProtoField.uint8("cbcb.subscription_flags", "Flags of the subscription", base.HEX),
  ["subscription_flags.refreshed"] = ProtoField.bool("cbcb.subscription_flags.refreshed", "Refreshed", 8, nil, 1),
  ["subscription_flags.top_up"] = ProtoField.bool("cbcb.subscription_flags.top_up", "Top-up", 8, nil, 2),
  publication_source = ProtoField.uint32("cbcb.publication_source", "Source"),
  publication_seq = ProtoField.uint64("cbcb.publication_seq", "Number at the source"),
  age_us = ProtoField.uint64("cbcb.age_us", "Age (us)"),
  publication_flags = ProtoField.uint8("cbcb.publication_flags", "Flags of the publication", base.HEX),
  ["publication_flags.pending"] = ProtoField.bool("cbcb.publication_flags.pending", "Pending", 8, nil, 1),
  ["publication_flags.custody"] = ProtoField.bool("cbcb.publication_flags.custody", "Custody", 8, nil, 2),
  ["publication_flags.taken"] = ProtoField.bool("cbcb.publication_flags.taken", "Taken", 8, nil, 4),
  ["publication_flags.refused"] = ProtoField.bool("cbcb.publication_flags.refused", "Refused", 8, nil, 8),
  key_id = ProtoField.uint32("cbcb.key_id", "Key"),
  set_bits = ProtoField.uint16("cbcb.set_bits", "Bits of a set"),
  hashes = ProtoField.uint8("cbcb.hashes", "Hash functions"),
  encoding = ProtoField.uint8("cbcb.encoding", "Encoding", base.DEC, ENCODINGS),
  bloom = ProtoField.bytes("cbcb.bloom", "Set of bits"),
  client = ProtoField.uint32("cbcb.client", "Client"),
  counter = ProtoField.uint64("cbcb.counter", "Counter"),
  ciphertext = ProtoField.bytes("cbcb.ciphertext", "Ciphertext"),
  parent_interface = ProtoField.uint16("cbcb.parent_interface", "Parent interface"),
  child_count = ProtoField.uint16("cbcb.child_count", "Child count"),
  children = ProtoField.none("cbcb.children", "Child"),
  sources = ProtoField.none("cbcb.sources", "Source"),
  operator = ProtoField.uint8("cbcb.operator", "Operator", base.DEC, OPERATORS),
  value_length = ProtoField.uint16("cbcb.value_length", "Length of the value"),
  destination = ProtoField.uint32("cbcb.destination", "Destination"),
  reusable = ProtoField.bool("cbcb.reusable", "Update replies may be reused", 16, nil, 32768),
  off_tree = ProtoField.bool("cbcb.off_tree", "Off the tree", 16, nil, 16384),
  class_number = ProtoField.uint16("cbcb.class_number", "Class"),
}
-- Reasons for which the codec refuses a frame.
local REASONS = {
  truncated = "Frame cut short",
  bad_version = "Unknown version",
  bad_type = "Unknown frame type",
  bad_reserved = "Reserved field is not 0",
  too_large = "Body too large",
  bad_fragment = "Fragments contradict each other",
  bad_length = "Lengths disagree",
  bad_tlv = "Malformed TLV",
  bad_name = "Malformed name",
  bad_value = "Malformed value",
  bad_constraint = "Malformed constraint",
  duplicate_attribute = "Attribute twice",
  duplicate_entry = "Entry twice",
}

-- end of constants

-- Field of the header -> its offset.
local OFFSETS = {}
for _, field in ipairs(HEADER) do OFFSETS[field[1]] = field[2] end

-- As in router/wire/intake.py: nanoseconds, bytes, bytes beside those of a fragment, frames.
local REASSEMBLY_TIMEOUT = 30000000000
local REASSEMBLY_BYTES = 64 * 1024 * 1024
local FRAGMENT_OVERHEAD = 200
local REASSEMBLY_FRAMES = 1024
-- Wireshark gives up a frame with 1,000,000 items in its tree.
local MAX_ITEMS = 250000
-- What is remembered of names and addresses is forgotten when there are so many.
local MAX_REMEMBERED = 10000

local RESERVED_NAMES = { any = true, ["and"] = true, ["or"] = true, ["true"] = true, ["false"] = true,
  none = true }

local u8, u16, u32 = ProtoField.uint8, ProtoField.uint16, ProtoField.uint32
-- The parts of every body.
body_fields.load = ProtoField.bytes("cbcb.load", "Fragment of a body")
body_fields.tlvs = ProtoField.none("cbcb.tlvs", "TLV")
body_fields.tlv_type = u8("cbcb.tlv_type", "TLV type", base.DEC, TLV_TYPES)
body_fields.tlv_length = u32("cbcb.tlv_length", "TLV length")
body_fields.data = ProtoField.bytes("cbcb.data", "Value of an unknown TLV")
-- Texts and numbers that are not in the frame as they are shown.
body_fields.message = ProtoField.string("cbcb.message", "Message")
body_fields.attribute = ProtoField.string("cbcb.attribute", "Attribute", base.UNICODE)
body_fields.filter = ProtoField.string("cbcb.filter", "Filter", base.UNICODE)
body_fields.predicate = ProtoField.string("cbcb.predicate", "Predicate", base.UNICODE)
fields["seq.incarnation"] = u32("cbcb.seq.incarnation", "Incarnation of the router")
fields["seq.number"] = u32("cbcb.seq.number", "Count of the router")
fields.padding = ProtoField.bytes("cbcb.padding", "Padding")
fields.sender = u32("cbcb.sender", "Sending router")
fields.sender_name = ProtoField.string("cbcb.sender_name", "Name of the sending router", base.UNICODE)
fields.issuer_name = ProtoField.string("cbcb.issuer_name", "Name of the issuer", base.UNICODE)
fields.ports = u16("cbcb.ports", "Port of the sending router's switch")
fields.decode_error = ProtoField.string("cbcb.decode_error", "Undecodable because")
fields.reassembled_in = ProtoField.framenum("cbcb.reassembled_in", "Whole in frame")
fields.fragments = ProtoField.framenum("cbcb.fragments", "Fragment in frame")
fields.request_in = ProtoField.framenum("cbcb.request_in", "Request in frame", base.NONE, frametype.REQUEST)
fields.response_in = ProtoField.framenum("cbcb.response_in", "Answer in frame", base.NONE, frametype.RESPONSE)
fields.response_time = ProtoField.relative_time("cbcb.response_time", "Time since the request")
fields.receipt_in = ProtoField.framenum("cbcb.receipt_in", "Receipt in frame", base.NONE, frametype.ACK)
fields.repeat_of = ProtoField.framenum("cbcb.repeat_of", "Repeats frame")
for name, field in pairs(body_fields) do fields[name] = field end
cbcb.fields = fields

-- One expert info for each reason for which the codec refuses a frame.
local experts = {}
for reason, text in pairs(REASONS) do
  experts[reason] = ProtoExpert.new("cbcb.error." .. reason, text, expert.group.MALFORMED, expert.severity.ERROR)
end
-- Whole frames that every router drops (router.protocol.counters.Drop, router.runtime.link), or that go nowhere.
local function drop(name, text)
  experts[name] = ProtoExpert.new("cbcb.drop." .. name, text, expert.group.PROTOCOL, expert.severity.WARN)
end
drop("bad_source", "Neither from a router nor from the controller to a router")
drop("not_from_controller", "A frame of the controller's, from a router")
drop("not_from_router", "A frame of a router's, from the controller")
drop("unknown_epoch", "Epoch 0: no router has tables for it")
drop("hop_limit", "No hop left: dropped where it arrives")
drop("no_port", "Addressed to no port: no switch hands it on")
local function note(name, text)
  experts[name] = ProtoExpert.new("cbcb.note." .. name, text, expert.group.SEQUENCE, expert.severity.NOTE)
end
note("partial", "Some downstream router is missing from this update reply")
note("repeated", "Repeated: not acknowledged in time")
note("unanswered", "No answer in this capture")
note("unconfirmed", "No receipt in this capture")
note("incomplete", "Its frame never became whole in this capture")
note("cut_by_capture", "The capture kept less of this frame than was sent")
note("too_many_items", "Too many items: the rest is checked but not shown")
local listed = {}
for _, info in pairs(experts) do table.insert(listed, info) end
cbcb.experts = listed

cbcb.prefs.reassemble = Pref.bool("Reassemble fragmented frames", true,
  "Whether the body of a fragmented frame is shown, with the fragment that completes it")

cbcb.prefs.topology = Pref.string("File with names of nodes", "",
  "topology.json of the run folder; fields sender_name and issuer_name show the names that nodes have in it")

local interface_id = Field.new("frame.interface_id")
-- Addresses as bytes: as text they may be names (03:00:00:00:00:01 is NETBIOS- to Wireshark), which only serve
-- to tell frames apart. There are no fields, of the frame's interface either, where Wireshark makes no tree: in
-- the first of two passes.
local eth_source, eth_destination = Field.new("eth.src"), Field.new("eth.dst")

-- The bytes of the innermost address of a frame, or nil.
local function address(extract)
  local found = { extract() }
  return #found > 0 and found[#found].range:raw() or nil
end

-- ---- Numbers --------------------------------------------------------------------------------------

-- Offsets count from 0, as they do in Wireshark.
local function number16(raw, at)
  local high, low = raw:byte(at + 1, at + 2)
  return high * 256 + low
end

local function number32(raw, at)
  local a, b, c, d = raw:byte(at + 1, at + 4)
  return a * 16777216 + b * 65536 + c * 256 + d
end

-- The decimal text of high * 2^32 + low, which a double cannot hold. 2^32 is 4294 millions and 967296.
local function decimal(high, low)
  local units = high * 967296 + low
  local millions = high * 4294 + math.floor(units / 1000000)
  if millions == 0 then return string.format("%.0f", units) end
  return string.format("%.0f%06.0f", millions, units % 1000000)
end

local function integer_text(raw, at)
  local high, low = number32(raw, at), number32(raw, at + 4)
  if high < 2147483648 then return decimal(high, low) end
  -- Two's complement.
  if low == 0 then return "-" .. decimal(4294967296 - high, 0) end
  return "-" .. decimal(4294967295 - high, 4294967296 - low)
end

-- The double in eight bytes, or nil if it is not finite.
local function double_at(raw, at)
  local high, low = number32(raw, at), number32(raw, at + 4)
  local sign = high >= 2147483648 and -1.0 or 1.0
  local exponent = math.floor(high / 1048576) % 2048
  local mantissa = high % 1048576 * 4294967296 + low
  if exponent == 2047 then return nil end
  if exponent == 0 then return sign * (mantissa * 2.0 ^ -1074) end
  return sign * ((mantissa + 4503599627370496) * 2.0 ^ (exponent - 1075))
end

-- ---- Text -----------------------------------------------------------------------------------------

-- Whether bytes are UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, at most U+10FFFF.
local function is_utf8(text)
  local at, size = text:find("[\128-\255]"), #text
  while at and at <= size do
    local first = text:byte(at)
    local more, low, high
    if first < 0x80 then more = 0
    elseif first < 0xC2 then return false
    elseif first < 0xE0 then more = 1
    elseif first < 0xF0 then
      more = 2
      low = first == 0xE0 and 0xA0 or nil
      high = first == 0xED and 0x9F or nil
    elseif first < 0xF5 then
      more = 3
      low = first == 0xF0 and 0x90 or nil
      high = first == 0xF4 and 0x8F or nil
    else return false end
    for index = 1, more do
      local byte = text:byte(at + index)
      if byte == nil or byte < (index == 1 and low or 0x80) or byte > (index == 1 and high or 0xBF) then
        return false
      end
    end
    at = at + 1 + more
  end
  return true
end

local ESCAPES = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ["\\"] = "\\\\", ['"'] = '\\"' }

local function quote(text)
  if text:find('[\0-\31\127"\\\194]') then
    text = text:gsub('[\0-\31\127"\\]', function(char)
      return ESCAPES[char] or string.format("\\x%02x", char:byte())
    end)
    -- U+0080 to U+00A0 and U+00AD: two bytes, of which the second is the number.
    text = text:gsub("\194([\128-\160\173])", function(char) return string.format("\\x%02x", char:byte()) end)
  end
  return '"' .. text .. '"'
end

-- The shortest decimal that reads back as the same double, always with a point or an exponent. Lua writes and reads
-- the decimal sign of the user's locale, so it becomes a point only when the digits are found.
local function double_text(number)
  local text
  -- Subnormal numbers have fewer than 15 significant digits.
  for digits = math.abs(number) < 2.3e-308 and 1 or 15, 17 do
    text = string.format("%." .. digits .. "g", number)
    if tonumber(text) == number then break end
  end
  -- Python writes an exponent from 16 on.
  if text:find("e%+15$") then text = string.format("%.0f", number) end
  text = text:gsub("[^%d%-+e]+", ".")
  return text:find("[.e]") and text or text .. ".0"
end

-- A table that remembers what `make` returns for a string.
local function remembered(make)
  local size = 0
  return setmetatable({}, { __index = function(known, text)
    if size >= MAX_REMEMBERED then
      size = 0
      for key in pairs(known) do known[key] = nil end
    end
    size = size + 1
    local made = make(text)
    known[text] = made
    return made
  end })
end

-- name -> { shown: as the field's value, text: as the notation of predicates writes it }, or false: not UTF-8.
local names = remembered(function(name)
  if not is_utf8(name) then return false end
  local plain = name:match("^[A-Za-z_][A-Za-z0-9_.-]*$") and not RESERVED_NAMES[name]
  -- Display strings end at a zero byte, so a name with control characters is shown quoted.
  return { shown = name:find("[\0-\31\127]") and quote(name) or name, text = plain and name or quote(name) }
end)

-- ---- Addresses (router/wire/header.py) ---------------------------------------------------------

-- Source address -> { node } of a router, { controller = true }, or false.
local sources = remembered(function(bytes)
  if bytes == "\2\202\0\0\0\1" then return { controller = true } end
  return bytes:sub(1, 2) == "\2\203" and { node = number32(bytes, 2) }
end)

-- Destination address -> { ports }, without any for the controller and from it, or false: nobody's.
local destinations = remembered(function(bytes)
  if bytes == "\3\255\0\0\0\0" then return { ports = {} } end
  if bytes == "\3\254\0\0\0\0" then return { ports = {}, router = true } end
  local kind, page = bytes:byte(1, 2)
  if kind ~= 3 or page >= 254 then return false end
  local bits, ports = number32(bytes, 2), {}
  for bit = 1, 32 do
    if bits % 2 == 1 then table.insert(ports, page * 32 + bit) end
    bits = math.floor(bits / 2)
  end
  return #ports > 0 and { ports = ports }
end)

-- ---- The tree -------------------------------------------------------------------------------------

-- Stops the dissection of a frame that breaks a rule; caught in cbcb.dissector.
local function refuse(reason, detail)
  error({ reason = reason, detail = detail }, 0)
end

-- Shows a field of the bytes in `state`, if there is a tree; returns its item.
local function put(state, tree, field, at, size, value)
  if tree == nil then return nil end
  if state.room <= 0 then
    state.overfull = true
    return nil
  end
  state.room = state.room - 1
  if value == nil then return tree:add(field, state.tvb(at, size)) end
  return tree:add(field, state.tvb(at, size), value)
end

-- Shows what is not in the frame as such.
local function generate(state, tree, field, value)
  if tree == nil or state.room <= 0 then return end
  state.room = state.room - 1
  tree:add(field, value):set_generated()
end

local function append(item, text)
  if item then item:append_text(text) end
end

-- Shows a field by its name, with its bits below it.
local function show(state, tree, name, at, size)
  local item = put(state, tree, fields[name], at, size)
  for _, bit in ipairs(item and BITS[name] or {}) do put(state, item, fields[bit], at, size) end
  return item
end

-- ---- Values ---------------------------------------------------------------------------------------

-- The text of the value in `size` bytes at `at`; refuses what is not a value of the type.
local function value_text(raw, name, kind, at, size)
  if kind == STRING then
    if size > STRING_MAX_BYTES then refuse("bad_value", name .. ": string of " .. size .. " bytes") end
    local text = raw:sub(at + 1, at + size)
    if not is_utf8(text) then refuse("bad_value", name .. ": not UTF-8") end
    return quote(text)
  elseif kind == INTEGER then
    if size == 8 then return integer_text(raw, at) end
  elseif kind == DOUBLE then
    if size == 8 then
      local number = double_at(raw, at)
      if number == nil then refuse("bad_value", name .. ": double is not finite") end
      return double_text(number)
    end
  elseif kind == BOOLEAN then
    local byte = size == 1 and raw:byte(at + 1)
    if byte == 1 then return "true" elseif byte == 0 then return "false" end
  else
    refuse("bad_value", name .. ": value type " .. kind)
  end
  refuse("bad_value", name .. ": " .. size .. " bytes are no " .. VALUE_TYPES[kind])
end

-- Shows a value as text and, below it, as a value of its type. An item of no bytes cannot be shown: an empty
-- string shares the byte before it.
local function show_value(state, tree, kind, at, size, text)
  local plain = kind == STRING and state.raw:sub(at + 1, at + size) or nil
  -- Display strings end at a zero byte.
  if plain and plain:find("[\0-\31\127]") then plain = text:sub(2, -2) end
  if size == 0 then at, size = at - 1, 1 end
  local item = put(state, tree, fields.value, at, size, text)
  put(state, item, fields["value." .. VALUE_TYPES[kind]], at, size, plain)
end

-- ---- TLVs -----------------------------------------------------------------------------------------

-- Each takes the state of the frame, the tree of the TLV, where its value starts and how long it is;
-- it shows its fields and adds to the texts in the state.
local readers = {}

local function wrong_size(tlv, size) refuse("bad_tlv", tlv .. " of " .. size .. " bytes") end

readers[ATTRIBUTE] = function(state, tree, at, size)
  local raw = state.raw
  if size < 3 then wrong_size("ATTRIBUTE", size) end
  local name_length = raw:byte(at + 1)
  put(state, tree, fields.name_length, at, 1)
  if name_length == 0 then refuse("bad_name", "empty attribute name") end
  if name_length + 2 > size then refuse("bad_tlv", "name leaves no room for a value") end
  local bytes = raw:sub(at + 2, at + 1 + name_length)
  local name = names[bytes]
  if not name then refuse("bad_name", "name is not UTF-8") end
  put(state, tree, fields.attribute_name, at + 1, name_length, name.shown)
  if state.names[bytes] then refuse("duplicate_attribute", name.text) end
  state.names[bytes] = true
  local kind_at = at + 1 + name_length
  put(state, tree, fields.value_type, kind_at, 1)
  local value_size = size - name_length - 2
  local kind = raw:byte(kind_at + 1)
  local value = value_text(raw, name.text, kind, kind_at + 1, value_size)
  show_value(state, tree, kind, kind_at + 1, value_size, value)
  local text = name.text .. "=" .. value
  generate(state, tree, fields.attribute, text)
  append(tree, ": " .. text)
  state.texts[#state.texts + 1] = text
end

-- One constraint; returns where the next one starts, and the text.
local function read_constraint(state, tree, at, stop)
  local raw = state.raw
  local name_length = raw:byte(at + 1)
  if name_length == 0 then refuse("bad_name", "empty name in a constraint") end
  local head = at + 1 + name_length
  if head + 4 > stop then refuse("bad_tlv", "constraint runs past its filter") end
  local name = names[raw:sub(at + 2, head)]
  if not name then refuse("bad_name", "name is not UTF-8") end
  local kind, operator = raw:byte(head + 1, head + 2)
  local size = number16(raw, head + 2)
  local value_at = head + 4
  if value_at + size > stop then refuse("bad_tlv", "value runs past its filter") end
  local branch = put(state, tree, fields.constraints, at, value_at + size - at)
  put(state, branch, fields.name_length, at, 1)
  put(state, branch, fields.attribute_name, at + 1, name_length, name.shown)
  put(state, branch, fields.value_type, head, 1)
  put(state, branch, fields.operator, head + 1, 1)
  put(state, branch, fields.value_length, head + 2, 2)
  if OPERATORS[operator] == nil then refuse("bad_constraint", name.text .. ": operator " .. operator) end
  if VALUE_TYPES[kind] == nil then refuse("bad_value", name.text .. ": value type " .. kind) end
  local text
  if operator == ANY then
    if size > 0 then refuse("bad_constraint", name.text .. ": operator any takes no value") end
    text = name.text .. " any " .. VALUE_TYPES[kind]
  else
    if STRING_ONLY[operator] and kind ~= STRING then
      refuse("bad_constraint", name.text .. ": operator " .. OPERATORS[operator] .. " is for strings only")
    end
    local value = value_text(raw, name.text, kind, value_at, size)
    show_value(state, branch, kind, value_at, size, value)
    text = name.text .. " " .. OPERATORS[operator] .. " " .. value
  end
  append(branch, ": " .. text)
  return value_at + size, text
end

readers[FILTER] = function(state, tree, at, size)
  local stop = at + size
  local texts = {}
  local next_at = at
  while next_at < stop do
    next_at, texts[#texts + 1] = read_constraint(state, tree, next_at, stop)
  end
  local text = #texts > 0 and table.concat(texts, " and ") or "*"
  generate(state, tree, fields.filter, text)
  append(tree, ": " .. text)
  state.texts[#state.texts + 1] = text
end

-- How the number of a TLV that a frame must have is shown; others as their field and the number.
local TEXTS = { [TIMEOUT] = "timeout %.0f us", [INCARNATION] = "incarnation %.0f", [OLDEST_EPOCH] = "oldest %.0f" }

-- TLVs whose first number is not shown beside the other TLVs of the body, but before them (info_text).
local HEADS = { [SUBSCRIPTION] = true, [PUBLICATION] = true }

local function number_text(tlv, field, number)
  if tlv == ACKNOWLEDGED then return FRAME_TYPES[number] or "type " .. number end
  return TEXTS[tlv] and string.format(TEXTS[tlv], number) or field .. " " .. string.format("%.0f", number)
end

-- A TLV of numbers, from its layout. The first number of the TLV that the frame must have is kept.
local function numbers(tlv, layout)
  local size = 0
  for _, field in ipairs(layout) do size = size + field[2] end
  return function(state, tree, at, length)
    if length ~= size then wrong_size(TLV_TYPES[tlv], length) end
    if state.required == tlv then
      state.single = 0
      for index = 1, layout[1][2] do state.single = state.single * 256 + state.raw:byte(at + index) end
      local text = number_text(tlv, layout[1][1], state.single)
      if not HEADS[tlv] then state.texts[#state.texts + 1] = text end
      append(tree, ": " .. text)
    end
    for _, field in ipairs(layout) do
      show(state, tree, field[1], at, field[2])
      at = at + field[2]
    end
  end
end

for tlv, layout in pairs(LAYOUTS) do readers[tlv] = numbers(tlv, layout) end

-- Shows the message that a frame carries by the name that `cbcb trace` takes.
local function show_message(state, tree, source, number)
  generate(state, tree, fields.message, string.format("%.0f:%.0f", source, number))
end

local show_publication = readers[PUBLICATION]
readers[PUBLICATION] = function(state, tree, at, size)
  show_publication(state, tree, at, size)
  show_message(state, tree, number32(state.raw, at), number32(state.raw, at + 8))
end

local show_neighbour = readers[NEIGHBOUR]
readers[NEIGHBOUR] = function(state, tree, at, size)
  show_neighbour(state, tree, at, size)
  local interface = number16(state.raw, at)
  if state.interfaces[interface] then refuse("duplicate_entry", "interface " .. interface) end
  state.interfaces[interface] = true
  state.neighbours = state.neighbours + 1
  append(tree, string.format(": interface %d to node %.0f", interface, number32(state.raw, at + 2)))
end

readers[TREE_CLASS] = function(state, tree, at, size)
  local raw = state.raw
  if size < 4 then wrong_size("TREE_CLASS", size) end
  local count = number16(raw, at + 2)
  put(state, tree, fields.parent_interface, at, 2)
  put(state, tree, fields.child_count, at + 2, 2)
  if size ~= 4 + 2 * count then wrong_size("TREE_CLASS", size) end
  state.classes = state.classes + 1
  local children, shown = {}, {}
  for index = 1, count do
    local child_at = at + 2 + 2 * index
    local child = number16(raw, child_at) % 0x4000
    local branch = put(state, tree, fields.children, child_at, 2)
    put(state, branch, fields.reusable, child_at, 2)
    put(state, branch, fields.off_tree, child_at, 2)
    put(state, branch, fields.interface, child_at, 2, child)
    append(branch, ": interface " .. child)
    if children[child] then
      refuse("duplicate_entry", string.format("child %d of class %d", child, state.classes))
    end
    children[child] = true
    shown[index] = child
  end
  append(tree, string.format(": class %d, children %s", state.classes, count > 0 and table.concat(shown, " ") or "none"))
end

readers[SUBTREES] = function(state, tree, at, size)
  state.subtrees = { at, size }
  if size > 0 then put(state, tree, fields.subtrees, at, size) end
end

-- The rows of SUBTREES against the number of classes, which is known at the end.
local function check_subtrees(state)
  local at, size = state.subtrees[1], state.subtrees[2]
  local width = math.ceil(state.classes / 8)
  if size ~= state.classes * width then wrong_size("SUBTREES", size) end
  for row = 1, state.classes do
    if state.raw:byte(at + row * width) % 2 ^ (8 * width - state.classes) ~= 0 then
      refuse("bad_value", "SUBTREES has a bit of 1 behind its classes")
    end
  end
end

local function check_destinations(count)
  if count < 1 or count > MAX_DESTINATIONS then refuse("bad_value", count .. " destinations") end
end

readers[DESTINATIONS] = function(state, tree, at, size)
  if size % 4 ~= 0 then wrong_size("DESTINATIONS", size) end
  check_destinations(size / 4)
  local before = -1
  for index = 0, size / 4 - 1 do
    local node_at = at + 4 * index
    local node = number32(state.raw, node_at)
    local branch = put(state, tree, fields.destinations, node_at, 4)
    put(state, branch, fields.destination, node_at, 4)
    append(branch, string.format(": node %.0f", node))
    if node == before then refuse("duplicate_entry", string.format("destination %.0f", node)) end
    if node < before then refuse("bad_value", string.format("destination %.0f out of order", node)) end
    before = node
  end
  append(tree, string.format(": %d nodes", size / 4))
end

readers[DESTINATION_MAP] = function(state, tree, at, size)
  if size < 4 then wrong_size("DESTINATION_MAP", size) end
  local first = number32(state.raw, at)
  put(state, tree, fields.first_destination, at, 4)
  if size > 4 then put(state, tree, fields.destination_bits, at + 4, size - 4) end
  if (size - 4) * 8 > MAX_DESTINATIONS then refuse("bad_value", (size - 4) * 8 .. " bits") end
  local count, last = 0, first
  for index = 0, size - 5 do
    local octet = state.raw:byte(at + 5 + index)
    for bit = 7, 0, -1 do
      if octet >= 2 ^ bit then
        octet = octet - 2 ^ bit
        count, last = count + 1, first + 8 * index + 7 - bit
      end
    end
  end
  check_destinations(count)
  if last > 4294967295 then refuse("bad_value", string.format("destination %.0f", last)) end
  append(tree, string.format(": %d nodes", count))
end

local show_key = readers[KEY]
readers[KEY] = function(state, tree, at, size)
  show_key(state, tree, at, size)
  local key, bits = number32(state.raw, at), number16(state.raw, at + 4)
  local hashes, encoding = state.raw:byte(at + 7, at + 8)
  local any = key == 0 and bits == 0 and hashes == 0 and encoding == 0
  if any and state.kind == XMSG then refuse("bad_value", "key 0 in XMSG") end
  if not any and (key == 0 or bits < 8 or bits > BITS_MAX or bits % 8 ~= 0 or hashes < 1 or hashes > HASHES_MAX
      or encoding == 0) then
    refuse("bad_value", string.format("key %.0f, %d bits, %d hashes, encoding %d", key, bits, hashes, encoding))
  end
  state.key, state.octets = string.format("%.0f", key), bits / 8
  append(tree, ": key " .. state.key)
end

readers[BLOOM] = function(state, tree, at, size)
  if not state.octets then refuse("bad_tlv", "BLOOM without a KEY before it") end
  if size ~= state.octets then wrong_size("BLOOM", size) end
  if size > 0 then put(state, tree, fields.bloom, at, size) end
  state.sets = state.sets + 1
end

readers[SEALED] = function(state, tree, at, size)
  if size < 12 then wrong_size("SEALED", size) end
  put(state, tree, fields.client, at, 4)
  put(state, tree, fields.counter, at + 4, 8)
  if size > 12 then put(state, tree, fields.ciphertext, at + 12, size - 12) end
end

-- TLVs that come first or not at all.
local LEADING = { [DESTINATIONS] = true, [DESTINATION_MAP] = true }

readers[CLASS_OF] = function(state, tree, at, size)
  if size % 2 ~= 0 then wrong_size("CLASS_OF", size) end
  for source = 0, size / 2 - 1 do
    local source_at = at + 2 * source
    local class = number16(state.raw, source_at)
    local branch = put(state, tree, fields.sources, source_at, 2)
    put(state, branch, fields.class_number, source_at, 2)
    append(branch, string.format(": source %d, class %d", source, class))
    if class > 0 then state.trees = state.trees + 1 end
    if class > state.largest then state.largest = class end
  end
end

-- ---- Bodies ---------------------------------------------------------------------------------------

local function read_tlvs(state, tree, at, stop, kind)
  local raw = state.raw
  local needed, seen = REQUIRED[kind] or {}, {}
  state.required = #needed == 1 and needed[1] or nil
  local begin = at
  if kind == PUB and not (at < stop and LEADING[raw:byte(at + 1)]) then
    refuse("bad_tlv", "PUB without destinations in its first TLV")
  end
  while at < stop do
    if at + TLV_HEADER_LENGTH > stop then refuse("bad_tlv", "TLV runs past the body's end") end
    local tlv, size = raw:byte(at + 1), number32(raw, at + 1)
    local value_at = at + TLV_HEADER_LENGTH
    if value_at + size > stop then refuse("bad_tlv", "TLV runs past the body's end") end
    local branch = put(state, tree, fields.tlvs, at, TLV_HEADER_LENGTH + size)
    if branch then branch:set_text(TLV_TYPES[tlv] or "Unknown TLV") end
    put(state, branch, fields.tlv_type, at, 1)
    put(state, branch, fields.tlv_length, at + 1, 4)
    if ALLOWED[kind][tlv] and not (LEADING[tlv] and at > begin) then
      if seen[tlv] and ALLOWED[kind][tlv] ~= MANY then refuse("bad_tlv", TLV_TYPES[tlv] .. " twice") end
      seen[tlv] = true
      readers[tlv](state, branch, value_at, size)
    elseif tlv == 0 or TLV_TYPES[tlv] then
      refuse("bad_tlv", "TLV of type " .. tlv .. " has no place in " .. FRAME_TYPES[kind])
    elseif size > 0 then
      put(state, branch, fields.data, value_at, size)
    end
    at = value_at + size
  end
  for _, tlv in ipairs(needed) do
    if not seen[tlv] then refuse("bad_tlv", FRAME_TYPES[kind] .. " without " .. TLV_TYPES[tlv]) end
  end
  -- After the TLVs, as the codec does: what else is wrong with them comes first.
  if (kind == ACK or kind == RECEIPT) and FRAME_TYPES[state.single] == nil then
    refuse("bad_value", "acknowledged frame type " .. state.single)
  end
  if kind == TABLE and state.largest > state.classes then
    refuse("bad_value", "a source of class " .. state.largest)
  end
  if state.subtrees then check_subtrees(state) end
end

-- The predicate of an XRA or XUR, of which nothing can be read.
local function encoded_text(state)
  if state.sets == 0 then return "none" end
  return "encoded, " .. state.sets .. (state.sets == 1 and " filter" or " filters")
end

local function info_text(header, state)
  local kind, issuer = header.type, header.issuer_text
  local messages = kind == MSG or kind == PUB or kind == FLUSH
  local content = table.concat(state.texts, messages and ", " or " or ")
  if kind == MSG then return issuer .. "/" .. header.seq .. (content ~= "" and " " .. content or "") end
  if kind == PUB or kind == FLUSH then
    return issuer .. "/" .. header.seq .. string.format(" uploaded at %.0f", state.single)
      .. (content ~= "" and " " .. content or "")
  end
  if kind == SUB then
    return issuer .. "/" .. header.seq .. string.format(" round %.0f: ", state.single)
      .. (content ~= "" and content or "none")
  end
  if kind == OVERLOAD then return issuer .. "/" .. header.seq .. " " .. content end
  if kind == XMSG then return issuer .. "/" .. header.seq .. " encoded, key " .. state.key end
  if kind == XRA or kind == XUR then
    return (kind == XRA and "from " or "to ") .. issuer .. (header.partial and " (partial): " or ": ")
      .. encoded_text(state)
  end
  if kind == RA or kind == UR then
    local predicate = content ~= "" and content or "none"
    return (kind == RA and "from " or "to ") .. issuer .. (header.partial and " (partial): " or ": ") .. predicate
  end
  if kind == RECEIPT then return content .. " " .. issuer .. "/" .. header.seq end
  if kind == SR then return "from " .. issuer .. " request " .. header.seq .. ", " .. content end
  if kind == TABLE then
    return "to " .. issuer .. " epoch " .. header.epoch_text .. ", " .. state.neighbours .. " neighbours, "
      .. state.trees .. " trees"
  end
  return (kind == COMMIT and "to " or "from ") .. issuer .. " epoch " .. header.epoch_text .. ", " .. content
end

-- Reads the whole body in `size` bytes at `at` of the state; returns the text for the Info column.
local function read_body(state, tree, at, size, header)
  local name = FRAME_TYPES[header.type]
  local body = tree
  state.texts, state.subtrees, state.kind = {}, nil, header.type
  state.key, state.octets, state.sets = nil, nil, 0
  if header.type == MSG or header.type == PUB or header.type == FLUSH then
    state.names = {}
  elseif header.type == TABLE then
    state.interfaces, state.neighbours, state.classes, state.trees, state.largest = {}, 0, 0, 0, 0
  end
  if tree and size > 0 then body = tree:add(state.tvb(at, size), name) end
  read_tlvs(state, body, at, at + size, header.type)
  if body and (header.type == XRA or header.type == XUR) then
    generate(state, body, fields.predicate, encoded_text(state))
  elseif body and (header.type == RA or header.type == UR or header.type == SUB) then
    generate(state, body, fields.predicate, #state.texts > 0 and table.concat(state.texts, " or ") or "none")
  end
  return name .. " " .. info_text(header, state)
end

-- ---- Reassembly -----------------------------------------------------------------------------------

-- What is known of the capture, by frame number where it belongs to a frame. Made in the first pass over the
-- frames, in their order, and read in every later one.
local capture

local function forget()
  capture = {
    partials = {},      -- key -> the fragments of a frame so far
    -- The same in the order of their fragments; of several entries of a frame the last counts: its `place`.
    oldest = {}, first = 1, last = 0,
    count = 0, bytes = 0,
    fragments = {},     -- frame number -> { in frame number, body, frame numbers }; a fragment of a whole frame
    wholes = {},        -- key -> the last of those
    late = {},          -- frame number -> the same, of a fragment that came again when its frame was whole
    contradictions = {},  -- frame number -> why the fragments of its frame were given up
    requests = {},      -- key -> frame number and time of what awaits an answer
    sent = {},          -- key of a reliable frame, and its sender -> the frame number of its first sending
    -- Frame number -> frame number, or nanoseconds; flat, because captures are long.
    request_of = {}, time_of = {}, response_of = {}, receipt_of = {}, repeat_of = {}, previous = {},
  }
end

forget()

-- Node -> its name, of the file that the preference names: the objects of its list "nodes" that have both.
local node_names = {}

local function read_node_names(path)
  local found = {}
  local file = path ~= "" and io.open(path, "r")
  if not file then return found end
  local text = file:read("*a")
  file:close()
  -- A name may hold quotes and brackets: each string is replaced by its number first.
  local strings = {}
  text = text:gsub("\\.", function(pair) return string.format("\1%02x", pair:byte(2)) end)
  text = text:gsub('"([^"]*)"', function(string_of)
    table.insert(strings, (string_of:gsub("\1(%x%x)", function(code) return string.char(tonumber(code, 16)) end)))
    return "<" .. #strings .. ">"
  end)
  for key, list in text:gmatch("<(%d+)>%s*:%s*(%b[])") do
    for object in list:gmatch(strings[tonumber(key)] == "nodes" and "%b{}" or "^$") do
      local id, name
      for field, value in object:gmatch("<(%d+)>%s*:%s*([<%d]%d*>?)") do
        field = strings[tonumber(field)]
        if field == "id" then id = tonumber(value) end
        if field == "name" then name = strings[tonumber(value:match("^<(%d+)>$") or 0)] end
      end
      if id and name then found[id] = name end
    end
  end
  return found
end

function cbcb.init()
  node_names = read_node_names(cbcb.prefs.topology)
  forget()
end

-- When a frame was captured, in whole nanoseconds after the first frame: Wireshark gives seconds as a double, which
-- holds them exactly for 26 days.
local function nanoseconds(pinfo)
  return math.floor(pinfo.rel_ts * 1e9 + 0.5)
end

local function give_up(key)
  local partial = capture.partials[key]
  if partial then
    capture.partials[key] = nil
    capture.count = capture.count - 1
    capture.bytes = capture.bytes - partial.length - FRAGMENT_OVERHEAD * partial.have
    -- It may stay in `oldest` for long.
    partial.chunks, partial.numbers, partial.repeats = nil, nil, nil
  end
end

-- Gives up the oldest frames other than `key`'s until one more fragment fits, as
-- router.wire.intake.Reassembler does.
local function make_room(key, cost)
  local allowed = capture.partials[key] and REASSEMBLY_FRAMES or REASSEMBLY_FRAMES - 1
  while capture.bytes + cost > REASSEMBLY_BYTES or capture.count > allowed do
    local entry = capture.oldest[capture.first]
    if entry == nil then break end
    capture.oldest[capture.first] = nil
    capture.first = capture.first + 1
    -- Of `key` itself an entry follows, for the new fragment.
    local counts = capture.partials[entry.key] == entry and entry.place == capture.first - 1
    if counts and entry.key ~= key then give_up(entry.key) end
  end
end

local function contradiction(key, number, detail)
  give_up(key)
  capture.contradictions[number] = detail
end

-- The frame that a fragment repeats, if it was whole before the fragment came. To a router that begins the frame
-- anew, which mostly comes to nothing; but it is not missing.
local function whole_again(key, header, chunk)
  local whole = capture.wholes[key]
  if not whole or whole.common ~= header.common then return nil end
  local start = whole.starts[header.index]
  local stop = (whole.starts[header.index + 1] or #whole.body + 1) - 1
  return whole.body:sub(start, stop) == chunk and whole or nil
end

-- Takes a fragment in the first pass.
local function collect(pinfo, key, header, chunk)
  local number, now = pinfo.number, nanoseconds(pinfo)
  capture.late[number] = whole_again(key, header, chunk)
  local partial = capture.partials[key]
  if partial and now - partial.latest >= REASSEMBLY_TIMEOUT then
    give_up(key)
    partial = nil
  end
  if partial and partial.common ~= header.common then
    return contradiction(key, number, "headers of the fragments differ")
  end
  local known = partial and partial.chunks[header.index]
  if known == chunk then
    table.insert(partial.repeats, number)
    return
  end
  if known then return contradiction(key, number, "two fragments " .. header.index .. " differ") end
  if not partial then
    partial = { key = key, common = header.common, chunks = {}, numbers = {}, repeats = {}, have = 0,
      length = 0 }
  end
  local length, missing = partial.length + #chunk, header.count - partial.have - 1
  -- Every fragment still missing has at least one byte.
  if length + missing > header.total or missing == 0 and length < header.total then
    return contradiction(key, number, "fragments do not add up to " .. header.total .. " bytes")
  end
  local cost = #chunk + FRAGMENT_OVERHEAD
  make_room(key, cost)
  if capture.partials[key] ~= partial then
    capture.partials[key] = partial
    capture.count = capture.count + 1
  end
  capture.last = capture.last + 1
  capture.oldest[capture.last] = partial
  partial.latest, partial.place = now, capture.last
  partial.chunks[header.index], partial.numbers[header.index] = chunk, number
  partial.have, partial.length = partial.have + 1, length
  capture.bytes = capture.bytes + cost
  if missing > 0 then return end
  local whole = { number = number, numbers = {}, starts = {}, common = header.common,
    body = table.concat(partial.chunks, "", 0, header.count - 1) }
  local start = 1
  for index = 0, header.count - 1 do
    whole.numbers[index + 1], whole.starts[index] = partial.numbers[index], start
    start = start + #partial.chunks[index]
    capture.fragments[partial.numbers[index]] = whole
  end
  for _, again in ipairs(partial.repeats) do capture.fragments[again] = whole end
  capture.wholes[key] = whole
  give_up(key)
end

-- ---- Requests and answers -------------------------------------------------------------------------

-- Which captured interface, of which router: the same frame crosses several links of a merged capture.
local function scope()
  local id = interface_id()
  return id and tostring(id) or ""
end

-- An answer, or a receipt, is to the request last sent, and counts for the same request sent before.
local function answer(answers, number, now, request, asked_at)
  capture.request_of[number], capture.time_of[number] = request, now - asked_at
  while request and not answers[request] do
    answers[request] = number
    request = capture.previous[request]
  end
end

-- Remembers a sender request, of which there are as many as there are routers on the way. Where a router's own
-- frames are captured, it is asked and asks: an answer is to the last request of another. So the last is kept,
-- and the last of another sender than that one's.
local function requested(key, number, now, sender)
  local asked = capture.requests[key]
  if not asked then
    capture.requests[key] = { number, now, sender }
    return
  end
  capture.previous[number] = asked[3] == sender and asked[1] or asked[6] == sender and asked[4] or nil
  if asked[3] ~= sender then asked[4], asked[5], asked[6] = asked[1], asked[2], asked[3] end
  asked[1], asked[2], asked[3] = number, now, sender
end

local function replied(answers, key, number, now, sender)
  local asked = capture.requests[key]
  if not asked then return end
  if asked[3] ~= sender then
    answer(answers, number, now, asked[1], asked[2])
  elseif asked[4] then
    answer(answers, number, now, asked[4], asked[5])
  end
end

-- Remembers a reliable frame. Its receipts come from the neighbours; the router sends it again to those from which
-- none comes. To ports of several pages it goes as a frame to each page.
local function sent_reliably(key, number, now, sender)
  requested(key, number, now, sender)
  local page = (address(eth_destination) or ""):sub(1, 2)
  local sending = table.concat({ key, sender, page }, "/")
  capture.repeat_of[number] = capture.sent[sending]
  capture.sent[sending] = capture.sent[sending] or number
end

-- Remembers a request, or finds that of an answer, in the first pass.
local function link(pinfo, header, single_value, sender)
  local kind, number, now = header.type, pinfo.number, nanoseconds(pinfo)
  local about = scope() .. "/" .. header.issuer_text
  if header.reliable or kind == RECEIPT then
    local confirmed = kind == RECEIPT and single_value or kind
    local key = table.concat({ "reliable", about, confirmed, header.seq, header.epoch_text }, "/")
    if header.reliable then
      sent_reliably(key, number, now, sender)
    else
      replied(capture.receipt_of, key, number, now, sender)
    end
  end
  if kind == SR then
    requested(about .. "/" .. header.seq, number, now, sender)
  elseif kind == UR or kind == XUR then
    replied(capture.response_of, about .. "/" .. header.seq, number, now, sender)
  elseif kind == HELLO then
    local before = capture.requests[about]
    -- Repeated HELLOs have numbers of their own; those of another incarnation are of a router that is gone.
    if before and before[3] == single_value then capture.previous[number] = before[1] end
    capture.requests[about] = { number, now, single_value }
  elseif kind == TABLE or kind == COMMIT then
    local hello = kind == TABLE and capture.requests[about]
    if hello then
      answer(capture.response_of, number, now, hello[1], hello[2])
      capture.requests[about] = nil
    end
    local key = about .. "/" .. kind .. "/" .. header.seq .. "/" .. header.epoch_text
    local before = capture.requests[key]
    if before then capture.repeat_of[number], capture.previous[number] = before[3], before[1] end
    capture.requests[key] = { number, now, before and before[3] or number }
  elseif kind == ACK then
    local asked = capture.requests[about .. "/" .. single_value .. "/" .. header.seq .. "/" .. header.epoch_text]
    if asked then answer(capture.response_of, number, now, asked[1], asked[2]) end
  end
end

-- As Wireshark has it: in a negative time, both parts are negative.
local function duration(time)
  local sign, total = time < 0 and -1 or 1, math.abs(time)
  local rest = total % 1000000000
  return NSTime.new(sign * math.floor((total - rest) / 1000000000), sign * rest)
end

local ASKS = { [SR] = true, [HELLO] = true, [TABLE] = true, [COMMIT] = true }

local function show_link(pinfo, tree, header_tree, header)
  local number = pinfo.number
  local request, response = capture.request_of[number], capture.response_of[number]
  local repeated, receipt = capture.repeat_of[number], capture.receipt_of[number]
  if header_tree then
    if request then
      header_tree:add(fields.request_in, request):set_generated()
      header_tree:add(fields.response_time, duration(capture.time_of[number])):set_generated()
    end
    if response then header_tree:add(fields.response_in, response):set_generated() end
    if receipt then header_tree:add(fields.receipt_in, receipt):set_generated() end
    if repeated then header_tree:add(fields.repeat_of, repeated):set_generated() end
  end
  if repeated then tree:add_proto_expert_info(experts.repeated) end
  -- Whether an answer comes is known when all frames have been seen once.
  if not pinfo.visited then return end
  if ASKS[header.type] and not response then tree:add_proto_expert_info(experts.unanswered) end
  if header.reliable and not receipt then tree:add_proto_expert_info(experts.unconfirmed) end
end

-- ---- Frames ---------------------------------------------------------------------------------------

-- The tags of the hop, if they are whole. Returns the place behind them, or `at`.
local function read_trailer(state, tree, at)
  local raw = state.raw
  local tags = at + TRAILER_LENGTH
  if tags > #raw then return at end
  local behind = tags + TAG_BYTES * raw:byte(tags)
  if behind > #raw then return at end
  if tree then
    for _, field in ipairs(TRAILER) do
      put(state, tree, fields[field[1]], at, field[2])
      at = at + field[2]
    end
    for place = tags, behind - 1, TAG_BYTES do put(state, tree, fields.hop_tag, place, TAG_BYTES) end
  end
  return behind
end

local function has(flags, flag) return math.floor(flags / flag) % 2 == 1 end

-- Shows the header and checks its rules, in the order of docs/reference/wire-format.md.
local function read_header(state, tree)
  local raw = state.raw
  local length = #raw
  if length < HEADER_LENGTH then refuse("truncated", "header has " .. HEADER_LENGTH .. " bytes") end
  local version, kind, flags, hop_limit = raw:byte(1, 4)
  local high, low = number32(raw, OFFSETS.seq), number32(raw, OFFSETS.seq + 4)
  -- The incarnation (high half) is left out where it is 0.
  local seq = string.format(high == 0 and "%.0f" or "%.0f:%.0f", high == 0 and low or high, low)
  for _, field in ipairs(tree and HEADER or {}) do
    local name, at, size = field[1], field[2], field[3]
    local item = show(state, tree, name, at, size)
    if name == "version" and version ~= VERSION then break end
    if name == "issuer" and node_names[number32(raw, at)] then
      generate(state, tree, fields.issuer_name, node_names[number32(raw, at)])
    end
    if name == "seq" then
      if high ~= 0 then append(item, " (" .. seq .. ")") end
      put(state, item, fields["seq.incarnation"], at, 4)
      put(state, item, fields["seq.number"], at + 4, 4)
    end
  end
  if kind == MSG or kind == XMSG then show_message(state, tree, number32(raw, OFFSETS.issuer), low) end
  if version ~= VERSION then refuse("bad_version", "version " .. version) end
  local total, index = number32(raw, OFFSETS.total_length), number16(raw, OFFSETS.fragment_index)
  local count, here = number16(raw, OFFSETS.fragment_count), number16(raw, OFFSETS.payload_length)
  if FRAME_TYPES[kind] == nil then refuse("bad_type", "frame type " .. kind) end
  if number16(raw, OFFSETS.reserved) ~= 0 then refuse("bad_reserved", "reserved field is not 0") end
  if total > MAX_BODY_LENGTH then refuse("too_large", string.format("body of %.0f bytes", total)) end
  if index >= count then refuse("bad_fragment", "fragment " .. index .. " of " .. count) end
  if count == 1 and here ~= total or count > 1 and (here < 1 or here > total - (count - 1)) then
    refuse("bad_length", "payload_length " .. here .. ", total_length " .. total)
  end
  if HEADER_LENGTH + here > length then refuse("truncated", "payload_length " .. here) end
  local behind = HEADER_LENGTH + here
  local signed = has(flags, SIGNED)
  -- Behind a signature that is cut short there is no trailer.
  local whole = not signed or behind + SIGNATURE_BYTES <= length
  if signed and whole then
    if tree then put(state, tree, fields.signature, behind, SIGNATURE_BYTES) end
    behind = behind + SIGNATURE_BYTES
  end
  if whole and has(flags, TAGGED) then behind = read_trailer(state, tree, behind) end
  if behind < length then put(state, tree, fields.padding, behind, length - behind) end
  return {
    type = kind, hop_limit = hop_limit, partial = (kind == UR or kind == XUR) and flags % 2 == 1, seq = seq,
    issuer_text = string.format("%.0f", number32(raw, OFFSETS.issuer)),
    epoch = number32(raw, OFFSETS.epoch), epoch_text = string.format("%.0f", number32(raw, OFFSETS.epoch)),
    reliable = CONFIRMED[kind] and has(flags, RELIABLE),
    total = total, index = index, count = count, here = here,
    -- What the fragments of one frame have in common, beside what makes it this frame.
    common = raw:sub(3, 4) .. raw:sub(17, 24) .. raw:sub(27, 28),
  }
end

-- Shows which router sent the frame, and to which ports of its switch. Returns who that is, or nil: not known.
local function read_addresses(state, tree)
  local from, to = address(eth_source), address(eth_destination)
  if from == nil or to == nil then return nil end
  local source, destination = sources[from], destinations[to]
  if source and source.node then
    generate(state, tree, fields.sender, source.node)
    if node_names[source.node] then generate(state, tree, fields.sender_name, node_names[source.node]) end
  end
  for _, port in ipairs(destination and destination.ports or {}) do generate(state, tree, fields.ports, port) end
  return source, destination
end

local FROM_CONTROLLER = { [TABLE] = true, [COMMIT] = true }
local TO_CONTROLLER = { [HELLO] = true, [ACK] = true }

local function show_drops(tree, header, source, destination)
  local kind = header.type
  if not source or source.controller and not (destination and destination.router) then
    tree:add_proto_expert_info(experts.bad_source)
  elseif source.controller and not FROM_CONTROLLER[kind] then
    tree:add_proto_expert_info(experts.not_from_router)
  elseif source.node and FROM_CONTROLLER[kind] then
    tree:add_proto_expert_info(experts.not_from_controller)
  end
  if not destination then tree:add_proto_expert_info(experts.no_port) end
  if FROM_CONTROLLER[kind] or TO_CONTROLLER[kind] then return end
  if header.epoch == 0 then tree:add_proto_expert_info(experts.unknown_epoch) end
  if header.hop_limit == 0 and kind ~= UR and kind ~= XUR then tree:add_proto_expert_info(experts.hop_limit) end
end

-- A fragment: its bytes and, if it makes its frame whole, the body. Returns the text for the Info column.
local function read_fragment(state, tree, header_tree, body_tree, pinfo, header)
  local chunk = state.raw:sub(HEADER_LENGTH + 1, HEADER_LENGTH + header.here)
  put(state, body_tree, fields.load, HEADER_LENGTH, header.here)
  local text = string.format("%s %s/%s fragment %d of %d", FRAME_TYPES[header.type], header.issuer_text, header.seq,
    header.index + 1, header.count)
  if not cbcb.prefs.reassemble then return text end
  if not pinfo.visited then
    local key = table.concat({ scope(), tostring(pinfo.dl_src), header.type, header.issuer_text,
      header.seq }, "/")
    collect(pinfo, key, header, chunk)
  end
  local problem, whole = capture.contradictions[pinfo.number], capture.fragments[pinfo.number]
  if problem then refuse("bad_fragment", problem) end
  -- Whether a repeat makes its frame whole once more is known when all frames have been seen once.
  if not whole and pinfo.visited then whole = capture.late[pinfo.number] end
  if not whole then
    if pinfo.visited then tree:add_proto_expert_info(experts.incomplete) end
    return text
  end
  if whole.number ~= pinfo.number then
    if header_tree then tree:add(fields.reassembled_in, whole.number):set_generated() end
    return text
  end
  if header_tree then
    for _, number in ipairs(whole.numbers) do generate(state, tree, fields.fragments, number) end
  end
  state.raw = whole.body
  if body_tree then state.tvb = ByteArray.new(whole.body, true):tvb("Reassembled CBCB body") end
  return read_body(state, body_tree, 0, #whole.body, header)
end

local this_dissector

local function read_frame(state, tree, tvb, pinfo)
  this_dissector = this_dissector or Dissector.get("cbcb")
  -- Nothing is added to a tree that nobody looks at, and no body to one of which only the header is asked for.
  local header_tree = tree:referenced(this_dissector) and tree or nil
  local body_tree = header_tree and tree.visible and tree or nil
  if header_tree and not body_tree then
    for _, field in pairs(body_fields) do
      if tree:referenced(field) then
        body_tree = tree
        break
      end
    end
  end
  local source, destination = read_addresses(state, header_tree)
  local header = read_header(state, header_tree)
  if source ~= nil then show_drops(tree, header, source, destination) end
  if header.count > 1 then
    pinfo.cols.info = read_fragment(state, tree, header_tree, body_tree, pinfo, header)
    local whole = capture.fragments[pinfo.number]
    if not whole or whole.number ~= pinfo.number then return end
  else
    pinfo.cols.info = read_body(state, body_tree, HEADER_LENGTH, header.here, header)
  end
  if header.partial then tree:add_proto_expert_info(experts.partial) end
  if header.type >= SR or header.reliable then
    if not pinfo.visited then link(pinfo, header, state.single, tostring(pinfo.dl_src)) end
    show_link(pinfo, tree, header_tree, header)
  end
end

function cbcb.dissector(tvb, pinfo, root)
  pinfo.cols.protocol = "CBCB"
  local tree = root:add(cbcb, tvb())
  local state = { tvb = tvb, raw = tvb:raw(), room = MAX_ITEMS }
  local done, problem = pcall(read_frame, state, tree, tvb, pinfo)
  if not done then
    -- A Lua error other than ours is a fault of this file: let Wireshark show it.
    if type(problem) ~= "table" then error(problem, 0) end
    tree:add(fields.decode_error, problem.reason):set_generated()
    tree:add_proto_expert_info(experts[problem.reason], problem.reason .. ": " .. problem.detail)
    pinfo.cols.info = "Undecodable: " .. problem.reason .. ": " .. problem.detail
  end
  if tvb:len() < tvb:reported_len() then tree:add_proto_expert_info(experts.cut_by_capture) end
  if state.overfull then tree:add_proto_expert_info(experts.too_many_items) end
  return tvb:len()
end

DissectorTable.get("ethertype"):add(ETHERTYPE, cbcb)
