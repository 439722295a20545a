-- Wireshark dissector for CBCB frames (EtherType 0x88B5), as docs/wire-format.md defines them.
--
--   tshark -X lua_script:cbcb.lua -r FILE -Y 'cbcb.type == 1 && cbcb.predicate'
--
-- Field names are those of the Scapy layers (router/wire/layers.py) after "cbcb."; beside them stand
-- readable texts (cbcb.attribute, cbcb.filter, cbcb.predicate) and, for a frame that breaks a rule, the
-- reason that the codec gives (cbcb.decode_error). Runs on Lua 5.2 to 5.4.

local cbcb = Proto("cbcb", "Content-based networking (CBCB)")

local ETHERTYPE = 0x88B5
local VERSION = 1
local HEADER_LENGTH = 32
local TLV_HEADER_LENGTH = 5
local MAX_BODY_LENGTH = 16 * 1024 * 1024
local STRING_MAX_BYTES = 65535

local FRAME_TYPES = { "MSG", "RA", "SR", "UR", "HELLO", "TABLE", "COMMIT", "ACK" }
local TLV_TYPES = {
  "ATTRIBUTE", "FILTER", "TIMEOUT", "INCARNATION", "NEIGHBOUR", "TREE_ENTRY", "OLDEST_EPOCH", "ACKNOWLEDGED",
}
local VALUE_TYPES = { "string", "integer", "double", "boolean" }
local OPERATORS = { "=", "!=", "<", ">", "<=", ">=", "=*", "*=", "**", "any" }
local STRING, INTEGER, DOUBLE, BOOLEAN = 1, 2, 3, 4
local ANY = 10
local STRING_ONLY = { [7] = true, [8] = true, [9] = true }
local RESERVED_NAMES = { any = true, ["and"] = true, ["or"] = true, ["true"] = true, ["false"] = true,
  none = true }

local fields = {
  version = ProtoField.uint8("cbcb.version", "Version"),
  type = ProtoField.uint8("cbcb.type", "Type", base.DEC, FRAME_TYPES),
  flags = ProtoField.uint8("cbcb.flags", "Flags", base.HEX),
  partial = ProtoField.bool("cbcb.flags.partial", "Partial update reply", 8, nil, 0x01),
  hop_limit = ProtoField.uint8("cbcb.hop_limit", "Hop limit"),
  issuer = ProtoField.uint32("cbcb.issuer", "Issuer"),
  seq = ProtoField.uint64("cbcb.seq", "Sequence or request number"),
  epoch = ProtoField.uint32("cbcb.epoch", "Epoch"),
  total_length = ProtoField.uint32("cbcb.total_length", "Length of the whole body"),
  fragment_index = ProtoField.uint16("cbcb.fragment_index", "Fragment index"),
  fragment_count = ProtoField.uint16("cbcb.fragment_count", "Fragment count"),
  payload_length = ProtoField.uint16("cbcb.payload_length", "Length of the body in this frame"),
  reserved = ProtoField.uint16("cbcb.reserved", "Reserved"),
  padding = ProtoField.bytes("cbcb.padding", "Padding"),
  fragment = ProtoField.bytes("cbcb.fragment", "Fragment of a body"),
  tlv_type = ProtoField.uint8("cbcb.tlv_type", "TLV type", base.DEC, TLV_TYPES),
  tlv_length = ProtoField.uint32("cbcb.tlv_length", "TLV length"),
  data = ProtoField.bytes("cbcb.data", "Value of an unknown TLV"),
  name_length = ProtoField.uint8("cbcb.name_length", "Length of the name"),
  attribute_name = ProtoField.string("cbcb.attribute_name", "Name", base.UNICODE),
  value_type = ProtoField.uint8("cbcb.value_type", "Value type", base.DEC, VALUE_TYPES),
  operator = ProtoField.uint8("cbcb.operator", "Operator", base.DEC, OPERATORS),
  value_length = ProtoField.uint16("cbcb.value_length", "Length of the value"),
  value = ProtoField.string("cbcb.value", "Value", base.UNICODE),
  timeout_us = ProtoField.uint32("cbcb.timeout_us", "Timeout (us)"),
  incarnation = ProtoField.uint32("cbcb.incarnation", "Incarnation"),
  interface = ProtoField.uint16("cbcb.interface", "Interface"),
  node = ProtoField.uint32("cbcb.node", "Node"),
  source = ProtoField.uint32("cbcb.source", "Source of the tree"),
  parent_interface = ProtoField.uint16("cbcb.parent_interface", "Parent interface"),
  downstream = ProtoField.uint32("cbcb.downstream", "Downstream set"),
  child_count = ProtoField.uint16("cbcb.child_count", "Child count"),
  children = ProtoField.uint16("cbcb.children", "Child interface", base.DEC, nil, 0x3fff),
  reusable = ProtoField.bool("cbcb.reusable", "Update replies may be reused", 16, nil, 0x8000),
  off_tree = ProtoField.bool("cbcb.off_tree", "Off the tree", 16, nil, 0x4000),
  oldest_epoch = ProtoField.uint32("cbcb.oldest_epoch", "Oldest epoch"),
  acknowledged = ProtoField.uint8("cbcb.acknowledged", "Acknowledged type", base.DEC, FRAME_TYPES),
  attribute = ProtoField.string("cbcb.attribute", "Attribute", base.UNICODE),
  filter = ProtoField.string("cbcb.filter", "Filter", base.UNICODE),
  predicate = ProtoField.string("cbcb.predicate", "Predicate", base.UNICODE),
  decode_error = ProtoField.string("cbcb.decode_error", "Undecodable because"),
}
cbcb.fields = fields

local malformed = ProtoExpert.new("cbcb.malformed", "Undecodable CBCB frame",
  expert.group.MALFORMED, expert.severity.ERROR)
cbcb.experts = { malformed }

-- Stops the dissection of a frame that breaks a rule; caught in cbcb.dissector.
local function refuse(reason, detail)
  error({ reason = reason, detail = detail }, 0)
end

-- ---- Text -----------------------------------------------------------------------------------------

-- Whether bytes are UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, at most U+10FFFF.
local function is_utf8(text)
  local at, size = 1, #text
  while at <= size do
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

local ESCAPES = { ["\n"] = "\\n", ["\t"] = "\\t", ["\\"] = "\\\\", ['"'] = '\\"' }

local function quote(text)
  local escaped = text:gsub('[\0-\31\127"\\]', function(char)
    return ESCAPES[char] or string.format("\\x%02x", char:byte())
  end)
  return '"' .. escaped .. '"'
end

local function name_text(name)
  if name:match("^[A-Za-z_][A-Za-z0-9_.-]*$") and not RESERVED_NAMES[name] then return name end
  return quote(name)
end

-- The shortest decimal that reads back as the same double, always with a point or an exponent.
local function double_text(number)
  local text
  -- Subnormal numbers have fewer than 15 significant digits.
  for digits = math.abs(number) < 2.3e-308 and 1 or 15, 17 do
    text = string.format("%." .. digits .. "g", number)
    if tonumber(text) == number then break end
  end
  return text:find("[.e]") and text or text .. ".0"
end

-- ---- Values ---------------------------------------------------------------------------------------

local function checked_name(range)
  local name = range:raw()
  if not is_utf8(name) then refuse("bad_name", "name is not UTF-8") end
  -- Display strings end at a zero byte, so a name with control characters is shown quoted.
  return name:find("[\0-\31\127]") and quote(name) or name
end

-- The text of the value in `size` bytes at `at`; refuses what is not a value of the type.
local function value_text(tvb, name, kind, at, size)
  if kind == STRING then
    if size > STRING_MAX_BYTES then refuse("bad_value", name .. ": string of " .. size .. " bytes") end
    local text = size > 0 and tvb:range(at, size):raw() or ""
    if not is_utf8(text) then refuse("bad_value", name .. ": not UTF-8") end
    return quote(text)
  elseif kind == INTEGER then
    if size == 8 then return tostring(tvb:range(at, 8):int64()) end
  elseif kind == DOUBLE then
    if size == 8 then
      local number = tvb:range(at, 8):float()
      if number ~= number or number == math.huge or number == -math.huge then
        refuse("bad_value", name .. ": double is not finite")
      end
      return double_text(number)
    end
  elseif kind == BOOLEAN then
    if size == 1 and tvb:range(at, 1):uint() <= 1 then
      return tvb:range(at, 1):uint() == 1 and "true" or "false"
    end
  else
    refuse("bad_value", name .. ": value type " .. kind)
  end
  refuse("bad_value", name .. ": " .. size .. " bytes are no " .. VALUE_TYPES[kind])
end

-- ---- TLVs -----------------------------------------------------------------------------------------

-- Each takes the buffer, the tree of the TLV, where its value starts and how long it is, and the state of
-- the frame; it adds its fields and to the texts in the state.
local readers = {}

local function wrong_size(tlv, size) refuse("bad_tlv", tlv .. " of " .. size .. " bytes") end

readers[1] = function(tvb, tree, at, size, state)
  if size < 3 then wrong_size("ATTRIBUTE", size) end
  local name_length = tvb:range(at, 1):uint()
  tree:add(fields.name_length, tvb:range(at, 1))
  if name_length == 0 then refuse("bad_name", "empty attribute name") end
  if name_length + 2 > size then refuse("bad_tlv", "name leaves no room for a value") end
  local name = checked_name(tvb:range(at + 1, name_length))
  tree:add(fields.attribute_name, tvb:range(at + 1, name_length), name)
  if state.names[name] then refuse("duplicate_attribute", name) end
  state.names[name] = true
  local kind_at = at + 1 + name_length
  local kind = tvb:range(kind_at, 1):uint()
  tree:add(fields.value_type, tvb:range(kind_at, 1))
  local value_size = size - name_length - 2
  local value = value_text(tvb, name, kind, kind_at + 1, value_size)
  tree:add(fields.value, tvb:range(kind_at, value_size + 1), value)
  local text = name_text(name) .. "=" .. value
  tree:add(fields.attribute, tvb:range(at, size), text):set_generated()
  tree:append_text(": " .. text)
  table.insert(state.texts, text)
end

-- One constraint; returns where the next one starts, and the text.
local function read_constraint(tvb, tree, at, stop)
  local name_length = tvb:range(at, 1):uint()
  if name_length == 0 then refuse("bad_name", "empty name in a constraint") end
  local head = at + 1 + name_length
  if head + 4 > stop then refuse("bad_tlv", "constraint runs past its filter") end
  local name = checked_name(tvb:range(at + 1, name_length))
  local kind, operator = tvb:range(head, 1):uint(), tvb:range(head + 1, 1):uint()
  local size = tvb:range(head + 2, 2):uint()
  local value_at = head + 4
  if value_at + size > stop then refuse("bad_tlv", "value runs past its filter") end
  local branch = tree:add(cbcb, tvb:range(at, value_at + size - at), "Constraint")
  branch:add(fields.name_length, tvb:range(at, 1))
  branch:add(fields.attribute_name, tvb:range(at + 1, name_length), name)
  branch:add(fields.value_type, tvb:range(head, 1))
  branch:add(fields.operator, tvb:range(head + 1, 1))
  branch:add(fields.value_length, tvb:range(head + 2, 2))
  if OPERATORS[operator] == nil then refuse("bad_constraint", name .. ": operator " .. operator) end
  if VALUE_TYPES[kind] == nil then refuse("bad_value", name .. ": value type " .. kind) end
  local text
  if operator == ANY then
    if size > 0 then refuse("bad_constraint", name .. ": operator any takes no value") end
    text = name_text(name) .. " any " .. VALUE_TYPES[kind]
  else
    if STRING_ONLY[operator] and kind ~= STRING then
      refuse("bad_constraint", name .. ": operator " .. OPERATORS[operator] .. " is for strings only")
    end
    local value = value_text(tvb, name, kind, value_at, size)
    branch:add(fields.value, tvb:range(head + 2, size + 2), value)
    text = name_text(name) .. " " .. OPERATORS[operator] .. " " .. value
  end
  branch:set_text("Constraint: " .. text)
  return value_at + size, text
end

readers[2] = function(tvb, tree, at, size, state)
  local stop = at + size
  local texts = {}
  local next_at = at
  while next_at < stop do
    local text
    next_at, text = read_constraint(tvb, tree, next_at, stop)
    table.insert(texts, text)
  end
  local text = #texts > 0 and table.concat(texts, " and ") or "*"
  tree:add(fields.filter, tvb:range(at - TLV_HEADER_LENGTH, size + TLV_HEADER_LENGTH), text):set_generated()
  tree:append_text(": " .. text)
  table.insert(state.texts, text)
end

-- A TLV of one unsigned number, which must occur once.
local function single(tlv, field, size, format)
  return function(tvb, tree, at, length, state)
    if length ~= size then wrong_size(tlv, length) end
    if state.single then refuse("bad_tlv", tlv .. " twice") end
    state.single = true
    tree:add(field, tvb:range(at, size))
    table.insert(state.texts, format(tvb:range(at, size):uint()))
  end
end

readers[3] = single("TIMEOUT", fields.timeout_us, 4, function(number) return "timeout " .. number .. " us" end)
readers[4] = single("INCARNATION", fields.incarnation, 4, function(number) return "incarnation " .. number end)
readers[7] = single("OLDEST_EPOCH", fields.oldest_epoch, 4, function(number) return "oldest " .. number end)
readers[8] = single("ACKNOWLEDGED", fields.acknowledged, 1, function(number)
  if FRAME_TYPES[number] == nil then refuse("bad_value", "acknowledged frame type " .. number) end
  return FRAME_TYPES[number]
end)

readers[5] = function(tvb, tree, at, size, state)
  if size ~= 6 then wrong_size("NEIGHBOUR", size) end
  local interface, node = tvb:range(at, 2):uint(), tvb:range(at + 2, 4):uint()
  tree:add(fields.interface, tvb:range(at, 2))
  tree:add(fields.node, tvb:range(at + 2, 4))
  if state.interfaces[interface] then refuse("duplicate_entry", "interface " .. interface) end
  state.interfaces[interface] = true
  state.neighbours = state.neighbours + 1
  tree:append_text(": interface " .. interface .. " to node " .. node)
end

readers[6] = function(tvb, tree, at, size, state)
  if size < 12 then wrong_size("TREE_ENTRY", size) end
  local source, count = tvb:range(at, 4):uint(), tvb:range(at + 10, 2):uint()
  tree:add(fields.source, tvb:range(at, 4))
  tree:add(fields.parent_interface, tvb:range(at + 4, 2))
  tree:add(fields.downstream, tvb:range(at + 6, 4))
  tree:add(fields.child_count, tvb:range(at + 10, 2))
  if size ~= 12 + 2 * count then wrong_size("TREE_ENTRY", size) end
  local children = {}
  for index = 0, count - 1 do
    local word = tvb:range(at + 12 + 2 * index, 2)
    local child = word:uint() % 0x4000
    tree:add(fields.children, word)
    tree:add(fields.reusable, word)
    tree:add(fields.off_tree, word)
    if children[child] then refuse("duplicate_entry", "child " .. child .. " of source " .. source) end
    children[child] = true
  end
  if state.sources[source] then refuse("duplicate_entry", "source " .. source) end
  state.sources[source] = true
  state.entries = state.entries + 1
  tree:append_text(": source " .. source)
end

-- ---- Bodies ---------------------------------------------------------------------------------------

-- Which TLV types each frame type has, and which one it must have.
local ALLOWED = {
  { [1] = true }, { [2] = true }, { [3] = true }, { [2] = true },
  { [4] = true }, { [5] = true, [6] = true }, { [7] = true }, { [8] = true },
}
local REQUIRED = { [3] = 3, [5] = 4, [7] = 7, [8] = 8 }

local function read_tlvs(tvb, tree, at, stop, kind, state)
  while at < stop do
    if at + TLV_HEADER_LENGTH > stop then refuse("bad_tlv", "TLV runs past the body's end") end
    local tlv, size = tvb:range(at, 1):uint(), tvb:range(at + 1, 4):uint()
    local value_at = at + TLV_HEADER_LENGTH
    if value_at + size > stop then refuse("bad_tlv", "TLV runs past the body's end") end
    local branch = tree:add(cbcb, tvb:range(at, TLV_HEADER_LENGTH + size), TLV_TYPES[tlv] or "Unknown TLV")
    branch:add(fields.tlv_type, tvb:range(at, 1))
    branch:add(fields.tlv_length, tvb:range(at + 1, 4))
    if ALLOWED[kind][tlv] then
      readers[tlv](tvb, branch, value_at, size, state)
    elseif tlv == 0 or TLV_TYPES[tlv] then
      refuse("bad_tlv", "TLV of type " .. tlv .. " has no place in " .. FRAME_TYPES[kind])
    elseif size > 0 then
      branch:add(fields.data, tvb:range(value_at, size))
    end
    at = value_at + size
  end
  if REQUIRED[kind] and not state.single then
    refuse("bad_tlv", FRAME_TYPES[kind] .. " without " .. TLV_TYPES[REQUIRED[kind]])
  end
end

-- The incarnation (high half) is left out where it is 0.
local function seq_text(range)
  local high, low = range:range(0, 4):uint(), range:range(4, 4):uint()
  return high == 0 and tostring(low) or high .. ":" .. low
end

local function info_text(kind, issuer, seq, epoch, state)
  local content = table.concat(state.texts, kind == 1 and ", " or " or ")
  if kind == 1 then return issuer .. "/" .. seq .. (content ~= "" and " " .. content or "") end
  if kind == 2 or kind == 4 then
    local predicate = content ~= "" and content or "none"
    local direction = kind == 2 and "from " or "to "
    return direction .. issuer .. (state.partial and " (partial): " or ": ") .. predicate
  end
  if kind == 3 then return "from " .. issuer .. " request " .. seq .. ", " .. content end
  if kind == 6 then
    return "to " .. issuer .. " epoch " .. epoch .. ", " .. state.neighbours .. " neighbours, "
      .. state.entries .. " trees"
  end
  return (kind == 7 and "to " or "from ") .. issuer .. " epoch " .. epoch .. ", " .. content
end

local function read_body(tvb, tree, kind, size, state)
  local body = tree:add(cbcb, tvb:range(HEADER_LENGTH, size), FRAME_TYPES[kind])
  read_tlvs(tvb, body, HEADER_LENGTH, HEADER_LENGTH + size, kind, state)
  return body
end

local function read_frame(tvb, tree, pinfo)
  local length = tvb:len()
  if length < HEADER_LENGTH then refuse("truncated", "header has " .. HEADER_LENGTH .. " bytes") end
  local function number(at, size) return tvb:range(at, size):uint() end
  local function add(field, at, size) return tree:add(fields[field], tvb:range(at, size)) end
  add("version", 0, 1)
  if number(0, 1) ~= VERSION then refuse("bad_version", "version " .. number(0, 1)) end
  add("type", 1, 1)
  add("flags", 2, 1):add(fields.partial, tvb:range(2, 1))
  add("hop_limit", 3, 1)
  add("issuer", 4, 4)
  add("seq", 8, 8)
  add("epoch", 16, 4)
  add("total_length", 20, 4)
  add("fragment_index", 24, 2)
  add("fragment_count", 26, 2)
  add("payload_length", 28, 2)
  add("reserved", 30, 2)
  local kind, total = number(1, 1), number(20, 4)
  local index, count, here = number(24, 2), number(26, 2), number(28, 2)
  if FRAME_TYPES[kind] == nil then refuse("bad_type", "frame type " .. kind) end
  if number(30, 2) ~= 0 then refuse("bad_reserved", "reserved field is not 0") end
  if total > MAX_BODY_LENGTH then refuse("too_large", "body of " .. total .. " bytes") end
  if index >= count then refuse("bad_fragment", "fragment " .. index .. " of " .. count) end
  if count == 1 and here ~= total or count > 1 and (here < 1 or here > total - (count - 1)) then
    refuse("bad_length", "payload_length " .. here .. ", total_length " .. total)
  end
  if HEADER_LENGTH + here > length then refuse("truncated", "payload_length " .. here) end
  if HEADER_LENGTH + here < length then
    tree:add(fields.padding, tvb:range(HEADER_LENGTH + here, length - HEADER_LENGTH - here))
  end

  local issuer, seq, epoch = number(4, 4), seq_text(tvb:range(8, 8)), number(16, 4)
  local name = FRAME_TYPES[kind]
  if count > 1 then
    tree:add(fields.fragment, tvb:range(HEADER_LENGTH, here))
    pinfo.cols.info = string.format("%s %d/%s fragment %d of %d", name, issuer, seq, index + 1, count)
    return
  end
  pinfo.cols.info = name .. " " .. issuer .. "/" .. seq
  local state = { texts = {}, names = {}, interfaces = {}, sources = {}, neighbours = 0, entries = 0,
    partial = kind == 4 and number(2, 1) % 2 == 1 }
  local body = tree
  if here > 0 then
    body = read_body(tvb, tree, kind, here, state)
  else
    read_tlvs(tvb, tree, HEADER_LENGTH, HEADER_LENGTH, kind, state)
  end
  if kind == 2 or kind == 4 then
    local predicate = #state.texts > 0 and table.concat(state.texts, " or ") or "none"
    body:add(fields.predicate, predicate):set_generated()
  end
  pinfo.cols.info = name .. " " .. info_text(kind, issuer, seq, epoch, state)
end

function cbcb.dissector(tvb, pinfo, root)
  pinfo.cols.protocol = "CBCB"
  local tree = root:add(cbcb, tvb())
  local done, problem = pcall(read_frame, tvb, tree, pinfo)
  if not done then
    -- A Lua error other than ours is a fault of this file: let Wireshark show it.
    if type(problem) ~= "table" then error(problem, 0) end
    tree:add(fields.decode_error, problem.reason):set_generated()
    tree:add_proto_expert_info(malformed, problem.reason .. ": " .. problem.detail)
    pinfo.cols.info = "Undecodable: " .. problem.reason .. ": " .. problem.detail
  end
  return tvb:len()
end

DissectorTable.get("ethertype"):add(ETHERTYPE, cbcb)
