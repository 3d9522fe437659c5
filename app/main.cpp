#include "app/commands.h"
#include "app/process.h"
#include "app/run.h"

int main(int argc, char** argv) {
  remat::app::set_up_process();
  CLI::App app("Train language models in the memory you have.", "remat");
  remat::app::add_train_command(app);
  remat::app::add_eval_command(app);
  remat::app::add_generate_command(app);
  remat::app::add_inspect_command(app);
  remat::app::add_plan_command(app);
  return remat::app::run(app, argc, argv);
}
