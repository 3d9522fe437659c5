#include "app/interrupt.h"

#include <csignal>
#include <initializer_list>
#include <string_view>
#include <unistd.h>

namespace remat::app {

namespace {

constexpr std::initializer_list<int> kSignals{SIGINT, SIGTERM, SIGHUP};

std::atomic<bool> requested_flag{false};
std::atomic<int> received{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may touch nothing that locks");

void restore_defaults() {
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

void on_signal(int signal) {
  restore_defaults();  // the next one ends the process
  received = signal;
  requested_flag = true;
  constexpr std::string_view text = "\ninterrupted: finishing this step, then saving ...\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

Interrupt::Interrupt() {
  requested_flag = false;
  for (const int signal : kSignals) {
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;  // the write of a checkpoint under way must not fail of it
    sigaction(signal, &action, nullptr);
  }
}

Interrupt::~Interrupt() { restore_defaults(); }

const std::atomic<bool>& Interrupt::requested() const { return requested_flag; }

int Interrupt::exit_code() const {
  constexpr int shell = 128;
  return shell + (received == SIGINT ? SIGINT : SIGTERM);
}

}  // namespace remat::app
