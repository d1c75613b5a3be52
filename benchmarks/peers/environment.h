// Sets the environment variables that the peers read when they are loaded.
#pragma once

namespace benchmarks {

// Removes the variables that configure a peer. A user may have set them to tune the peer or to slow it down,
// and a comparison must not depend on that.
void clear_environment();

// Sets the number of threads that Kiln and all peers use.
void set_threads(int threads);

// Selects the Python of install_pytorch.sh's default folder where it exists, unless KILN_PYTHON names
// another.
void find_python();

} // namespace benchmarks
