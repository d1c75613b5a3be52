// Declares the part of the outside program that uses the tuner's public interface.
#pragma once

// Calls the functions of the tuner's public headers. Returns what is wrong, or null.
const char* check_tuning();
