// kiln: shows what Kiln makes of kernels and looks after what it keeps; `kiln --help` says how.
#include <kiln/jit/cli/dispatch.h>

int main(int argc, char** argv) { return kiln::cli::run(argc, argv); }
