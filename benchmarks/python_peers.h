// Starts a Python process that times PyTorch and Triton, and sends it requests.
//
// gpu_peers.py and peers/cpu_peers.py document the protocol.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace benchmarks {

class PythonPeers {
public:
  explicit PythonPeers(const std::string& script) {
    int to[2], from[2];
    if (access(script.c_str(), R_OK) != 0 || pipe(to) != 0) return;
    if (pipe(from) != 0) {
      close(to[0]), close(to[1]);
      return;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    for (int end : {to[0], to[1], from[0], from[1]})
      posix_spawn_file_actions_addclose(&actions, end);
    const char* python = std::getenv("KILN_PYTHON");
    std::string program = python ? python : "python3";
    char* argv[] = {program.data(), const_cast<char*>(script.c_str()), nullptr};
    bool started = posix_spawnp(&child_, program.c_str(), &actions, nullptr, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]), close(from[1]);
    requests_ = fdopen(to[1], "w"), answers_ = fdopen(from[0], "r");
    if (!started) child_ = 0;
    auto versions = nlohmann::json::parse(answer(), nullptr, false);
    for (const char* name : {"torch", "triton"})
      if (versions.is_object() && versions.value(name, nlohmann::json()).is_string())
        versions_[name] = versions[name].get<std::string>();
  }
  ~PythonPeers() {
    if (requests_) std::fclose(requests_); // the process ends at the end of its input
    if (answers_) std::fclose(answers_);
    if (child_) waitpid(child_, nullptr, 0);
  }
  PythonPeers(const PythonPeers&) = delete;
  PythonPeers& operator=(const PythonPeers&) = delete;

  // The versions of "torch" and "triton", as far as they are installed.
  const std::map<std::string, std::string>& versions() const { return versions_; }
  // The seconds of one run; 0 if the peer does not support the request.
  double seconds(const std::string& request) {
    if (versions_.empty() || std::fprintf(requests_, "%s\n", request.c_str()) < 0) return 0;
    std::fflush(requests_);
    return std::atof(answer().c_str()); // 0 for "none" and if the process has died
  }

private:
  std::string answer() {
    char line[4096];
    return child_ && std::fgets(line, sizeof line, answers_) ? line : "";
  }
  pid_t child_ = 0;
  std::FILE *requests_ = nullptr, *answers_ = nullptr;
  std::map<std::string, std::string> versions_;
};

} // namespace benchmarks
