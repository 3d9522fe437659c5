#include "models/safetensors.h"

#include <csignal>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/models/error_of.h"
#include "tests/support/temporary_folder.h"

namespace remat::models::safetensors {
namespace {

using remat::testing::TemporaryFolder;

namespace fs = std::filesystem;

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

TEST(SafetensorsTest, EveryDtypeComesBackBitForBit) {
  const TemporaryFolder folder;
  NamedTensors tensors;
  for (const auto dtype : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong,
                           at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    tensors.emplace_back(c10::toString(dtype), at::arange(6).view({2, 3}).to(dtype));
  }
  write(folder / "t", tensors);
  const File file(folder / "t");
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(file.read(name).scalar_type(), tensor.scalar_type());
    EXPECT_TRUE(file.read(name).equal(tensor)) << name;
  }
}

TEST(SafetensorsTest, StridesScalarsAndEmptyTensorsAreWrittenAsTheyRead) {
  const TemporaryFolder folder;
  const auto turned = at::arange(6).view({2, 3}).t();
  write(folder / "t",
        {{"turned", turned}, {"scalar", at::scalar_tensor(7)}, {"none", at::ones({0, 3})}});
  const File file(folder / "t");
  EXPECT_TRUE(file.read("turned").equal(turned));
  EXPECT_EQ(file.read("scalar").dim(), 0);
  EXPECT_EQ(file.read("none").sizes(), (std::vector<int64_t>{0, 3}));
}

TEST(SafetensorsTest, MetadataComesBackAndSaysPt) {
  const TemporaryFolder folder;
  write(folder / "t", {{"a", at::ones({1})}}, {{"step", "7"}});
  EXPECT_EQ(File(folder / "t").metadata(), (Metadata{{"format", "pt"}, {"step", "7"}}));
}

TEST(SafetensorsTest, ReadIntoConvertsAndChecksTheShape) {
  const TemporaryFolder folder;
  write(folder / "t", {{"a", at::full({2}, 1.5)}});
  const File file(folder / "t");
  auto target = at::zeros({2}, at::TensorOptions(at::kDouble)).requires_grad_();
  file.read_into("a", target);
  EXPECT_TRUE(target.detach().equal(at::full({2}, 1.5, at::kDouble)));
  auto other = at::zeros({3});
  EXPECT_TRUE(says(error_of([&] { file.read_into("a", other); }), "shape [2], but [3] is needed"));
}

TEST(SafetensorsTest, AMissingFileAndAMissingTensorAreNamed) {
  const TemporaryFolder folder;
  EXPECT_TRUE(says(error_of([&] { File(folder / "no"); }), "/no: cannot be opened: No such file"));
  write(folder / "t", {});
  const auto error = error_of([&] { return File(folder / "t").read("a"); });
  EXPECT_TRUE(says(error, "/t: tensor \"a\": is not in the file"));
}

TEST(SafetensorsTest, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  write(folder / "t", {{"a", at::ones({4})}});
  for (auto bytes = fs::file_size(folder / "t"); bytes-- > 0;) {
    fs::resize_file(folder / "t", bytes);
    EXPECT_THROW(File(folder / "t"), Error) << bytes << " bytes";
  }
}

TEST(SafetensorsTest, AFileThatShrinksAfterItWasOpenedIsAnError) {
  const TemporaryFolder folder;
  write(folder / "t", {{"a", at::ones({4})}});
  const File file(folder / "t");
  fs::resize_file(folder / "t", fs::file_size(folder / "t") - 1);
  EXPECT_TRUE(says(error_of([&] { return file.read("a"); }), "was cut short"));
}

TEST(SafetensorsTest, AFolderIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_TRUE(says(error_of([&] { File(folder.path()); }), "is no regular file"));
}

// ---- Writing
// -------------------------------------------------------------------------------------

TEST(SafetensorsWriteTest, ANameGivenTwiceIsRefused) {
  const TemporaryFolder folder;
  const auto twice = [&] { write(folder / "t", {{"a", at::ones({1})}, {"a", at::ones({1})}}); };
  EXPECT_THROW(twice(), std::invalid_argument);
  EXPECT_EQ(files_in(folder.path()), 0);
}

TEST(SafetensorsWriteTest, AFileThatCannotBeWrittenLeavesTheOldOneAndNoOther) {
  const TemporaryFolder folder;
  write(folder / "t", {{"a", at::ones({1})}});
  // A limit on file sizes stands for a full disk.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const auto error = error_of([&] { write(folder / "t", {{"a", at::ones({10'000})}}); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);

  EXPECT_TRUE(says(error, "/t: cannot be written: File too large"));
  EXPECT_EQ(File(folder / "t").read("a").numel(), 1);
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(SafetensorsWriteTest, AFolderThatIsNotThereIsNamed) {
  const auto error = error_of([] { write("/nowhere/t", {}); });
  EXPECT_TRUE(says(error, "/nowhere/t: cannot be created: No such file"));
}

// ---- Shards
// --------------------------------------------------------------------------------------

NamedTensors three() { return {{"a", at::ones({4})}, {"b", at::ones({2})}, {"c", at::ones({9})}}; }

TEST(FolderTest, ShardsAreFilledInOrderAndReadThroughTheIndex) {
  const TemporaryFolder folder;
  write_folder(folder.path(), three(), /*shard_bytes=*/24);
  const Folder shards(folder.path());
  EXPECT_EQ(shards.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(shards.find("b")->path().filename(), "model-00001-of-00002.safetensors");
  EXPECT_EQ(shards.find("c")->read("c").numel(), 9);
  EXPECT_EQ(shards.find("d"), nullptr);
}

TEST(FolderTest, TheOtherFormIsRemovedSoThatNobodyReadsIt) {
  const TemporaryFolder folder;
  write_folder(folder.path(), {{"old", at::ones({1})}});
  write_folder(folder.path(), three(), /*shard_bytes=*/24);
  EXPECT_EQ(Folder(folder.path()).find("old"), nullptr);
  write_folder(folder.path(), {{"new", at::ones({1})}});
  EXPECT_EQ(Folder(folder.path()).names(), std::vector<std::string>{"new"});
}

struct BadIndex {
  const char* name;
  const char* json;
  const char* says;
};

void PrintTo(const BadIndex& index, std::ostream* out) { *out << index.name; }

class BadIndexTest : public ::testing::TestWithParam<BadIndex> {};

TEST_P(BadIndexTest, IsRefused) {
  const TemporaryFolder folder;
  write(folder / "part.safetensors", {{"a", at::ones({1})}, {"b", at::ones({1})}});
  folder.write(kIndexFile, GetParam().json);
  EXPECT_TRUE(says(error_of([&] { Folder(folder.path()); }), GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadIndexTest,
    ::testing::Values(
        BadIndex{"no JSON", "{", "must be a JSON object"},
        BadIndex{"no map", "{}", "with the object \"weight_map\""},
        BadIndex{"a path", R"({"weight_map":{"a":"../part.safetensors"}})", "must name a file of"},
        BadIndex{"a number", R"({"weight_map":{"a":1}})", "must name a file of this folder, not 1"},
        BadIndex{"no such shard", R"({"weight_map":{"a":"q.safetensors"}})", "cannot be opened"},
        BadIndex{"not in the shard",
                 R"({"weight_map":{"a":"part.safetensors","b":"part.safetensors",)"
                 R"("c":"part.safetensors"}})",
                 "tensor \"c\": is not in the file"},
        BadIndex{"not in the index", R"({"weight_map":{"a":"part.safetensors"}})",
                 "tensor \"b\": is in the file, but not in"}));

TEST(FolderTest, AFolderWithoutWeightsSaysHowToMakeThem) {
  const TemporaryFolder folder;
  EXPECT_TRUE(says(error_of([&] { Folder(folder.path()); }), "python -m remat.prepare model"));
}

}  // namespace
}  // namespace remat::models::safetensors
