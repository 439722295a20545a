-- A stand-in for what the dissector uses of Wireshark, to run it in a plain Lua:
--   lua wire_wireshark.lua DISSECTOR FILE     FILE: Ethernet payloads in hexadecimal, one a line
-- Prints the Info column of each frame. A tree accepts everything, as one does that is visible.

local anything = {}
setmetatable(anything, {
  __index = function() return anything end,
  __call = function() return anything end,
})
ProtoField, ProtoExpert, base, expert, frametype = anything, anything, anything, anything, anything
-- A preference that is a text has its default.
Pref = setmetatable({ string = function(_, default) return default end }, getmetatable(anything))
NSTime, ByteArray = anything, anything
Field = { new = function() return function() return nil end end }
local proto = { prefs = {} }
Proto = function() return proto end
Dissector = { get = function() return proto end }
DissectorTable = { get = function() return anything end }

dofile(arg[1])
for line in io.lines(arg[2]) do
  local bytes = line:gsub("%x%x", function(digits) return string.char(tonumber(digits, 16)) end)
  local tvb = setmetatable({}, {
    __call = function(_, at, size)
      assert(at == nil or at >= 0 and size > 0 and at + size <= #bytes, "range outside the frame")
      return anything
    end,
  })
  function tvb.raw() return bytes end
  function tvb.len() return #bytes end
  tvb.reported_len = tvb.len
  local pinfo = { cols = {}, number = 1, rel_ts = 0, visited = false }
  proto.init()
  proto.dissector(tvb, pinfo, anything)
  print(pinfo.cols.info)
end
