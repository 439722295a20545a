graph [
  label "Zoo"
  node [ id 3 label "Rome" Longitude 12.5 Latitude 41.9 ]
  node [ id 8 label "Milan" ]
  node [ id 9 label "Milan" ]
  edge [ source 3 target 8 LinkSpeedRaw 10000000000 ]
  edge [ source 3 target 8 ]
  edge [ source 8 target 9 ]
]
