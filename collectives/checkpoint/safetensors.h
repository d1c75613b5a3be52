// Reads files of tensors in the safetensors format, in which Hugging Face publishes weights.
//
//   const SafetensorsFile file("model.safetensors");
//   for (const auto& [name, tensor] : file.tensors())
//     std::printf("%s: %s\n", name.c_str(), tensor.dtype.c_str());
//   const SafetensorsFile::Tensor& norm = file.tensor("model.norm.weight");
//   std::vector<bf16> first(8);
//   file.open().read(norm, 0, first.data(), 16);               // the first 16 bytes of its data
//
// The format: eight bytes with the length of the header (little-endian), the header in JSON, and the data of
// the tensors, which are row-major, little-endian, and lie one after the other without gaps. The header maps
// each name to a dtype, a shape, and the offsets of the data; "__metadata__" maps text to text.
//
// The constructor reads the header only, and checks all of it: whether it is as long as it says, whether each
// tensor has as many bytes as its shape and dtype need, whether the tensors fill the file without overlaps
// and gaps, and whether a name occurs twice. Errors are UserErrors that name the file, the tensor and the
// fix. Corrupt files are safe to open. If another program truncates the file during a read, the read throws,
// too.
//
// Thread-safe, since it does not change after the constructor. Needs a little-endian machine.
#pragma once

#include <kiln/dsl/api.h>
#include <kiln/dsl/dtype.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

KILN_API_BEGIN
namespace kiln::collectives {

class SafetensorsFile {
public:
  struct Tensor {
    std::string dtype;         // as in the file: "BF16"
    std::optional<DType> type; // empty if Kiln has no such dtype; then the data can still be read
    std::vector<std::int64_t> extents;
    std::int64_t offset = 0, bytes = 0; // of the data in the file
  };

  explicit SafetensorsFile(std::string path);

  const std::string& path() const { return path_; }
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // The tensor of that name. UserError if there is none.
  const Tensor& tensor(const std::string& name) const;

  // The open file: it owns a file descriptor, which SafetensorsFile itself does not. It must not outlive the
  // SafetensorsFile. Several threads may read at the same time.
  class Data {
  public:
    Data(Data&& other) noexcept : path_(other.path_), descriptor_(other.descriptor_) {
      other.descriptor_ = -1;
    }
    ~Data();
    // Reads `bytes` bytes of a tensor's data, from its byte `begin` on, into host memory. UserError if the
    // tensor does not have these bytes.
    void read(const Tensor& tensor, std::int64_t begin, void* to, std::int64_t bytes) const;

  private:
    friend class SafetensorsFile;
    Data(const std::string& path, int descriptor) : path_(path), descriptor_(descriptor) {}
    const std::string& path_;
    int descriptor_;
  };
  // Opens the file for reading. UserError if it is gone, or does not have the same size as before.
  Data open() const;

private:
  std::string path_;
  std::int64_t size_ = 0;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

} // namespace kiln::collectives
KILN_API_END
