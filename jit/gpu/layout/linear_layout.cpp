// Implements linear layouts by Gaussian elimination over GF(2).
#include <kiln/jit/gpu/layout/linear_layout.h>

#include <kiln/dsl/error.h>
#include <kiln/jit/gpu/layout/echelon.h>

#include <algorithm>
#include <bit>

namespace kiln::gpu {
namespace {

int total(const LinearLayout::Dims& dims) {
  int bits = 0;
  for (const auto& d : dims)
    bits += d.bits;
  return bits;
}

int start_of(const LinearLayout::Dims& dims, std::string_view name) {
  int at = 0;
  for (const auto& d : dims) {
    if (d.name == name) return at;
    at += d.bits;
  }
  return -1;
}

int bits_of(const LinearLayout::Dims& dims, std::string_view name) {
  for (const auto& d : dims)
    if (d.name == name) return d.bits;
  return 0;
}

constexpr std::uint64_t low_mask(int bits) {
  return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

// The field of `bits` bits that starts at bit `from` of `value`, moved to bit `to`.
std::uint64_t moved(std::uint64_t value, int from, int bits, int to) {
  return ((value >> from) & low_mask(bits)) << to;
}

} // namespace

std::string axis_name(int axis) { return "dim" + std::to_string(axis); }

LinearLayout::LinearLayout(Dims ins, Dims outs, std::vector<std::uint64_t> columns)
    : ins_(std::move(ins)), outs_(std::move(outs)), columns_(std::move(columns)) {
  internal_check(static_cast<int>(columns_.size()) == total(ins_) && total(outs_) <= 63,
                 "a layout has a column for each input bit and at most 63 output bits");
  for (std::uint64_t c : columns_)
    internal_check(c <= low_mask(total(outs_)), "a basis of a layout lies outside of its outputs");
}

LinearLayout LinearLayout::identity(int bits, std::string_view in, std::string_view out) {
  std::vector<std::uint64_t> columns;
  for (int i = 0; i < bits; ++i)
    columns.push_back(std::uint64_t{1} << i);
  return LinearLayout({{std::string(in), bits}}, {{std::string(out), bits}}, std::move(columns));
}

LinearLayout LinearLayout::zeros(int bits, std::string_view in, std::string_view out) {
  return LinearLayout({{std::string(in), bits}}, {{std::string(out), 0}},
                      std::vector<std::uint64_t>(static_cast<std::size_t>(bits), 0));
}

int LinearLayout::out_bits() const { return total(outs_); }
int LinearLayout::in_bits(std::string_view name) const { return bits_of(ins_, name); }
int LinearLayout::out_bits(std::string_view name) const { return bits_of(outs_, name); }
int LinearLayout::in_start(std::string_view name) const { return start_of(ins_, name); }
int LinearLayout::out_start(std::string_view name) const { return start_of(outs_, name); }

std::uint64_t LinearLayout::column(std::string_view in, int bit) const {
  internal_check(bit >= 0 && bit < in_bits(in),
                 [&] { return "a layout has no bit " + std::to_string(bit) + " of " + std::string(in); });
  return column(in_start(in) + bit);
}

std::int64_t LinearLayout::basis(std::string_view in, int bit, std::string_view out) const {
  int start = out_start(out);
  return start < 0 ? 0 : static_cast<std::int64_t>(moved(column(in, bit), start, out_bits(out), 0));
}

std::uint64_t LinearLayout::apply(std::uint64_t flat_in) const {
  std::uint64_t result = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (flat_in >> i & 1) result ^= columns_[i];
  return result;
}

std::uint64_t LinearLayout::flatten(const Coordinates& in) const {
  std::uint64_t flat = 0;
  for (const auto& [name, value] : in) {
    int start = in_start(name);
    internal_check(start >= 0 ? static_cast<std::uint64_t>(value) <= low_mask(in_bits(name)) : value == 0,
                   [&] { return "a place outside of its layout: " + name + " " + std::to_string(value); });
    if (start >= 0) flat |= static_cast<std::uint64_t>(value) << start;
  }
  return flat;
}

LinearLayout::Coordinates LinearLayout::unflatten_out(std::uint64_t flat_out) const {
  Coordinates result;
  int at = 0;
  for (const Dim& d : outs_) {
    result.emplace_back(d.name, static_cast<std::int64_t>(moved(flat_out, at, d.bits, 0)));
    at += d.bits;
  }
  return result;
}

LinearLayout::Coordinates LinearLayout::apply(const Coordinates& in) const {
  return unflatten_out(apply(flatten(in)));
}

LinearLayout operator*(const LinearLayout& a, const LinearLayout& b) {
  // Each dimension has the bits of `a`, then those of `b`.
  auto merge = [](const LinearLayout::Dims& x, const LinearLayout::Dims& y) {
    LinearLayout::Dims all = x;
    for (const auto& d : y) {
      auto at = std::find_if(all.begin(), all.end(), [&](const auto& e) { return e.name == d.name; });
      if (at == all.end())
        all.push_back(d);
      else
        at->bits += d.bits;
    }
    return all;
  };
  LinearLayout::Dims ins = merge(a.ins(), b.ins()), outs = merge(a.outs(), b.outs());
  std::vector<std::uint64_t> columns;
  for (const auto& in : ins) {
    for (int i = 0; i < a.in_bits(in.name); ++i) {
      std::uint64_t from = a.column(in.name, i), to = 0;
      for (const auto& out : a.outs())
        to |= moved(from, start_of(a.outs(), out.name), out.bits, start_of(outs, out.name));
      columns.push_back(to);
    }
    for (int i = 0; i < b.in_bits(in.name); ++i) {
      std::uint64_t from = b.column(in.name, i), to = 0;
      for (const auto& out : b.outs())
        to |= moved(from, start_of(b.outs(), out.name), out.bits,
                    start_of(outs, out.name) + a.out_bits(out.name));
      columns.push_back(to);
    }
  }
  return LinearLayout(std::move(ins), std::move(outs), std::move(columns));
}

LinearLayout LinearLayout::then(const LinearLayout& after) const {
  std::vector<std::uint64_t> columns;
  for (std::uint64_t c : columns_) {
    std::uint64_t between = 0;
    int at = 0;
    for (const Dim& d : outs_) {
      std::uint64_t value = moved(c, at, d.bits, 0);
      at += d.bits;
      int start = after.in_start(d.name);
      internal_check(start >= 0 ? value <= low_mask(after.in_bits(d.name)) : value == 0, [&] {
        return "layouts do not compose: " + d.name + " of\n" + to_string() + "does not fit\n" +
               after.to_string();
      });
      if (start >= 0) between |= value << start;
    }
    columns.push_back(after.apply(between));
  }
  return LinearLayout(ins_, after.outs_, std::move(columns));
}

LinearLayout LinearLayout::inverse() const {
  internal_check(in_bits() <= 64, "a layout with more than 64 input bits has no inverse here");
  Echelon echelon;
  for (int i = 0; i < in_bits(); ++i)
    echelon.add(column(i), std::uint64_t{1} << i);
  std::vector<std::uint64_t> columns;
  for (int o = 0; o < out_bits(); ++o) {
    auto row = echelon.reduce(std::uint64_t{1} << o);
    internal_check(row.value == 0, [&] {
      return "only a layout that reaches every element has an inverse:\n" + to_string();
    });
    columns.push_back(row.combination);
  }
  return LinearLayout(outs_, ins_, std::move(columns));
}

std::optional<LinearLayout> LinearLayout::divided_by(const LinearLayout& divisor) const {
  Dims ins, outs;
  for (const Dim& d : divisor.ins())
    if (d.bits > in_bits(d.name)) return std::nullopt;
  for (const Dim& d : divisor.outs())
    if (d.bits > out_bits(d.name)) return std::nullopt;
  for (const Dim& d : ins_)
    ins.push_back({d.name, d.bits - divisor.in_bits(d.name)});
  for (const Dim& d : outs_)
    outs.push_back({d.name, d.bits - divisor.out_bits(d.name)});
  std::vector<std::uint64_t> columns;
  for (const Dim& d : ins)
    for (int i = 0; i < d.bits; ++i) {
      std::uint64_t from = column(d.name, divisor.in_bits(d.name) + i), to = 0;
      for (const Dim& out : outs_) {
        int low = divisor.out_bits(out.name), start = out_start(out.name);
        if (moved(from, start, low, 0) != 0) return std::nullopt;
        to |= moved(from, start + low, out.bits - low, start_of(outs, out.name));
      }
      columns.push_back(to);
    }
  LinearLayout quotient(std::move(ins), std::move(outs), std::move(columns));
  std::vector<std::string> in_order, out_order;
  for (const Dim& d : ins_)
    in_order.push_back(d.name);
  for (const Dim& d : outs_)
    out_order.push_back(d.name);
  LinearLayout product = (divisor * quotient).with_ins(in_order).with_outs(out_order);
  return product == *this ? std::optional(quotient) : std::nullopt;
}

LinearLayout LinearLayout::with_ins(const std::vector<std::string>& order) const {
  Dims ins;
  std::vector<std::uint64_t> columns;
  int seen = 0;
  for (const std::string& name : order) {
    ins.push_back({name, in_bits(name)});
    for (int i = 0; i < in_bits(name); ++i)
      columns.push_back(column(name, i));
    seen += in_bits(name);
  }
  internal_check(seen == in_bits(), "the new order of a layout's inputs leaves one out");
  return LinearLayout(std::move(ins), outs_, std::move(columns));
}

LinearLayout LinearLayout::with_outs(const std::vector<std::string>& order) const {
  int seen = 0;
  for (const std::string& name : order)
    seen += out_bits(name);
  internal_check(seen == out_bits(), "the new order of a layout's outputs leaves one out");
  std::vector<std::string> all;
  for (const Dim& d : ins_)
    all.push_back(d.name);
  return restricted(all, order);
}

LinearLayout LinearLayout::flat_outs(std::string_view name) const {
  return LinearLayout(ins_, {{std::string(name), out_bits()}}, columns_);
}

LinearLayout LinearLayout::split_out(std::string_view name, const Dims& parts) const {
  Dims outs;
  for (const Dim& d : outs_)
    if (d.name == name)
      outs.insert(outs.end(), parts.begin(), parts.end());
    else
      outs.push_back(d);
  internal_check(total(outs) == out_bits(),
                 "the parts of a layout's output do not have as many bits as it has");
  return LinearLayout(ins_, std::move(outs), columns_);
}

LinearLayout LinearLayout::without_out(std::string_view name) const {
  std::vector<std::string> ins, outs;
  for (const Dim& d : ins_)
    ins.push_back(d.name);
  for (const Dim& d : outs_)
    if (d.name != name) outs.push_back(d.name);
  return restricted(ins, outs);
}

LinearLayout LinearLayout::renamed_out(std::string_view from, std::string_view to) const {
  LinearLayout result = *this;
  for (Dim& d : result.outs_)
    if (d.name == from) d.name = to;
  return result;
}

LinearLayout LinearLayout::restricted(const std::vector<std::string>& ins,
                                      const std::vector<std::string>& outs) const {
  Dims in_dims, out_dims;
  for (const std::string& name : ins)
    in_dims.push_back({name, in_bits(name)});
  for (const std::string& name : outs)
    out_dims.push_back({name, out_bits(name)});
  std::vector<std::uint64_t> columns;
  for (const Dim& d : in_dims)
    for (int i = 0; i < d.bits; ++i) {
      std::uint64_t to = 0;
      for (const Dim& out : out_dims)
        if (out.bits > 0)
          to |= moved(column(d.name, i), out_start(out.name), out.bits, start_of(out_dims, out.name));
      columns.push_back(to);
    }
  return LinearLayout(std::move(in_dims), std::move(out_dims), std::move(columns));
}

int LinearLayout::rank() const { return static_cast<int>(independent(columns_).size()); }

std::uint64_t LinearLayout::redundant(std::string_view in) const {
  Echelon echelon;
  std::uint64_t result = 0;
  for (const Dim& d : ins_)
    for (int i = 0; i < d.bits; ++i)
      if (!echelon.add(column(d.name, i)) && d.name == in) result |= std::uint64_t{1} << i;
  return result;
}

std::string LinearLayout::to_string() const {
  std::string text;
  for (const Dim& d : ins_) {
    text += d.name + ":";
    for (int i = 0; i < d.bits; ++i) {
      text += " " + std::to_string(std::int64_t{1} << i) + "->(";
      bool first = true;
      for (const auto& [name, value] : unflatten_out(column(d.name, i))) {
        text += (first ? "" : ", ") + std::to_string(value);
        first = false;
      }
      text += ")";
    }
    text += "\n";
  }
  text += "of";
  for (const Dim& d : outs_)
    text += " " + d.name + " " + std::to_string(std::int64_t{1} << d.bits);
  return text + "\n";
}

std::vector<std::uint64_t> independent(const std::vector<std::uint64_t>& vectors) {
  Echelon echelon;
  std::vector<std::uint64_t> basis;
  for (std::uint64_t v : vectors)
    if (echelon.add(v)) basis.push_back(v);
  return basis;
}

bool spans(const std::vector<std::uint64_t>& vectors, std::uint64_t v) {
  Echelon echelon;
  for (std::uint64_t x : vectors)
    echelon.add(x);
  return echelon.reduce(v).value == 0;
}

std::vector<std::uint64_t> complement(const std::vector<std::uint64_t>& vectors, int bits) {
  Echelon echelon;
  for (std::uint64_t x : vectors)
    echelon.add(x);
  std::vector<std::uint64_t> result;
  for (int i = 0; i < bits; ++i)
    if (echelon.add(std::uint64_t{1} << i)) result.push_back(std::uint64_t{1} << i);
  return result;
}

// Zassenhaus' algorithm: finds the combinations of vectors of `a` that vectors of `b` cancel.
std::vector<std::uint64_t> intersection(const std::vector<std::uint64_t>& a,
                                        const std::vector<std::uint64_t>& b) {
  Echelon echelon;
  for (std::uint64_t v : b)
    echelon.add(v);
  std::vector<std::uint64_t> common;
  for (std::uint64_t v : independent(a)) {
    auto row = echelon.reduce(v, v);
    if (row.value == 0)
      common.push_back(row.combination);
    else
      echelon.add(v, v);
  }
  return common;
}

} // namespace kiln::gpu
