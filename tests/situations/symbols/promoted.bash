# A library that was opened local is opened again global: from then on others see what it defines.
with 'int offered(void) { return 0; }' library plug/liba.so liba.so
with 'int offered(void); int plugin(void) { return offered(); }' library plug/libb.so libb.so
opener p liba.so libb.so --global liba.so --local libb.so -- '-Wl,-rpath,$ORIGIN/plug'
limit="the flags of dlopen are in code" start ./p
