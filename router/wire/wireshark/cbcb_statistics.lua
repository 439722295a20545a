-- Statistics of CBCB frames: by type, by issuer and type, and undecodable ones by reason.
--
--   tshark -q -z cbcb,frames[,FILTER] -r FILE        (with this file and cbcb.lua as plugins, or by -X lua_script:)
--   Wireshark: Statistics (or Tools > CBCB in later versions) > CBCB > Frames by type and issuer
--
-- Loaded after cbcb.lua, whose fields it counts. Runs on Lua 5.2 to 5.4.

-- generated: constants

local TYPES = { { 1, "MSG" }, { 2, "RA" }, { 3, "SR" }, { 4, "UR" }, { 5, "HELLO" }, { 7, "COMMIT" }, { 8, "ACK" }, { 9, "SUB" }, { 10, "PUB" }, { 11, "OVERLOAD" }, { 12, "FLUSH" }, { 13, "XMSG" }, { 14, "XRA" }, { 15, "XUR" }, { 16, "TABLE" }, { 17, "RECEIPT" } }

-- end of constants
local ARGUMENT = "cbcb,frames"

local type_of = Field.new("cbcb.type")
local issuer_of = Field.new("cbcb.issuer")
local error_of = Field.new("cbcb.decode_error")

local function new_counts()
  return { frames = 0, bytes = 0, types = {}, issuers = {}, errors = {} }
end

local function count(counts, size, kind, issuer, problem)
  counts.frames, counts.bytes = counts.frames + 1, counts.bytes + size
  if problem then
    counts.errors[problem] = (counts.errors[problem] or 0) + 1
    return
  end
  local of_type = counts.types[kind] or { frames = 0, bytes = 0 }
  counts.types[kind] = of_type
  of_type.frames, of_type.bytes = of_type.frames + 1, of_type.bytes + size
  local of_issuer = counts.issuers[issuer] or {}
  counts.issuers[issuer] = of_issuer
  of_issuer[kind] = (of_issuer[kind] or 0) + 1
end

local function sorted_keys(counted)
  local keys = {}
  for key in pairs(counted) do table.insert(keys, key) end
  table.sort(keys)
  return keys
end

-- A number with decimals; with a point, whatever the user's locale has.
local function fixed(format, number)
  return (string.format(format, number):gsub("[^%d%s]+", "."))
end

-- The counts as lines of text.
local function as_text(counts)
  local lines = {}
  local function line(...) table.insert(lines, string.format(...)) end
  line("%-12s %10s %8s %12s %12s", "CBCB frames", "frames", "share", "bytes", "mean bytes")
  for _, type in ipairs(TYPES) do
    local kind, name = type[1], type[2]
    local of_type = counts.types[kind]
    if of_type then
      line("%-12s %10d %s%% %12d %s", name, of_type.frames, fixed("%7.2f", 100 * of_type.frames / counts.frames),
        of_type.bytes, fixed("%12.1f", of_type.bytes / of_type.frames))
    end
  end
  for _, reason in ipairs(sorted_keys(counts.errors)) do
    line("%-12s %10d %s%%  undecodable", reason, counts.errors[reason],
      fixed("%7.2f", 100 * counts.errors[reason] / counts.frames))
  end
  line("%-12s %10d %8s %12d", "all", counts.frames, "", counts.bytes)
  -- Narrow enough for Wireshark's text window.
  local heading = string.format("%-8s", "issuer")
  for _, type in ipairs(TYPES) do heading = heading .. string.format(" %6s", type[2]) end
  table.insert(lines, "")
  table.insert(lines, heading)
  for _, issuer in ipairs(sorted_keys(counts.issuers)) do
    local row = string.format("%-8s", string.format("%.0f", issuer))
    for _, type in ipairs(TYPES) do
      row = row .. string.format(" %6d", counts.issuers[issuer][type[1]] or 0)
    end
    table.insert(lines, row)
  end
  return table.concat(lines, "\n") .. "\n"
end

-- Listens to the frames that a display filter selects; returns how to write and how to end.
local function listen(filter)
  local counts = new_counts()
  local tap = Listener.new("frame", filter ~= "" and "cbcb && (" .. filter .. ")" or "cbcb")
  function tap.packet(pinfo)
    local kind, issuer, problem = type_of(), issuer_of(), error_of()
    count(counts, pinfo.len, kind and kind.value, issuer and issuer.value, problem and problem.value)
  end
  function tap.reset()
    counts = new_counts()
  end
  return tap, function() return as_text(counts) end
end

register_stat_cmd_arg(ARGUMENT, function(argument)
  local tap, text = listen((argument or ""):sub(#ARGUMENT + 2))
  function tap.draw()
    io.stdout:write(text())
  end
end)

if gui_enabled() then
  register_menu("CBCB/Frames by type and issuer", function()
    local tap, text = listen("")
    local window = TextWindow.new("CBCB: frames by type and issuer")
    window:set_atclose(function() tap:remove() end)
    function tap.draw()
      window:set(text())
    end
    retap_packets()
  end, MENU_STAT_UNSORTED)
end
