#include "lineshaft/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>

#include "lineshaft/interrupt.h"

namespace lineshaft::app {
namespace {

constexpr size_t kOutputBytesMax = size_t{64} << 20;
constexpr int kPollMilliseconds = 100;   // an interrupt ends the wait earlier

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using TemporaryFile = std::unique_ptr<std::FILE, CloseFile>;

std::string last_line(std::FILE* file) {
  std::rewind(file);
  std::array<char, 4096> piece;
  std::string text, last;
  while (const size_t count = std::fread(piece.data(), 1, piece.size(), file)) {
    text.append(piece.data(), count);
    if (text.size() > 2 * piece.size()) text.erase(0, text.size() - piece.size());
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

// The program's end of the pipe is closed here once it runs; its output then ends with it.
StatusOr<pid_t> spawn(const std::vector<std::string>& arguments, int out, int err) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return unavailable("{} can't be run: {}", arguments[0], std::strerror(error));
  return pid;
}

// Reads until the end of the pipe. kCancelled: interrupted; kResourceExhausted: too much.
Status read_all(int in, std::string* out) {
  std::array<char, 65536> piece;
  while (true) {
    pollfd ready = {in, POLLIN, 0};
    const int count = poll(&ready, 1, kPollMilliseconds);
    if (interrupts() > 0) return make_status(StatusCode::kCancelled, "interrupted");
    if (count <= 0) continue;   // time, or a signal
    const ssize_t got = read(in, piece.data(), piece.size());
    if (got == 0) return ok_status();
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unavailable("its output can't be read: {}", std::strerror(errno));
    out->append(piece.data(), static_cast<size_t>(got));
    if (out->size() > kOutputBytesMax) return resource_exhausted("its output is too long");
  }
}

int wait_for(pid_t pid) {
  int state = 0;
  while (waitpid(pid, &state, 0) < 0 && errno == EINTR) {
  }
  return state;
}

std::string how_it_ended(int state) {
  return WIFSIGNALED(state) ? fmt::format("was ended by signal {}", WTERMSIG(state))
                            : fmt::format("ended with exit code {}", WEXITSTATUS(state));
}

}  // namespace

StatusOr<std::string> find_program(const std::string& name, const std::string& folder) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(!folder.empty() ? folder : path != nullptr ? path : "");
  // A folder that the user names may have a colon in its name.
  for (std::string one; std::getline(folders, one, folder.empty() ? ':' : '\n');) {
    const auto file = std::filesystem::path(one) / name;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0) {
      return file.string();
    }
  }
  return not_found("no program {} in {}", name,
                   folder.empty() ? std::string("the folders of PATH") : folder);
}

StatusOr<std::string> output_of(const std::vector<std::string>& arguments) {
  const TemporaryFile talk(std::tmpfile());
  int ends[2];
  if (talk == nullptr || pipe2(ends, O_CLOEXEC) != 0) {
    return unavailable("no pipe to a program: {}", std::strerror(errno));
  }
  const StatusOr<pid_t> pid = spawn(arguments, ends[1], fileno(talk.get()));
  close(ends[1]);
  std::string out;
  const Status read = pid.ok() ? read_all(ends[0], &out) : pid.status();
  close(ends[0]);
  if (!pid.ok()) return pid.status();
  if (!read.ok()) kill(*pid, SIGTERM);
  const int state = wait_for(*pid);
  if (!read.ok()) return read;
  if (!WIFEXITED(state) || WEXITSTATUS(state) != 0) {
    return unavailable("{} {}: {}", arguments[0], how_it_ended(state), last_line(talk.get()));
  }
  return out;
}

}  // namespace lineshaft::app
