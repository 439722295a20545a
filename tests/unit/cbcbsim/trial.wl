// as the simulator writes it
time_unit 0.01 ; sim_length 2000 ;
node 0 455 282 , node 1 310 90 , node 2 -5 3.5 ,
link 0 1 8 , link 1 2 3.5 ,
set_predicate 2 0 0 a < 10 | b = "x", c any int ;
set_predicate 0 50 ;
send_message 0 500 a = 9 b = "x" ;
send_message 1 2001 a = 9 ;
