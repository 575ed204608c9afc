/* Included in each module that is compiled for gcov: processes that end without their exit handlers call it. */
void __gcov_dump(void);
__attribute__((visibility("default"))) void scopegate_counted(void);
void scopegate_counted(void) { __gcov_dump(); }
