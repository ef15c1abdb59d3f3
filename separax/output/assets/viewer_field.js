"use strict";
// A field from its factors, which are Chebyshev series along their axes: Σ_j Π f_j(axis), or Σ_abc
// core_abc f_a g_b h_c; sums of
// derivatives of such fields; and what is a formula of those. Nothing here knows about the page.

const GRID = 256; // points of a picture along each shown axis

function decoded(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Kind(bytes.buffer);
}

class Factors {
  constructor(data) {
    this.axes = data.axes;
    this.outputs = data.outputs;
    this.time = data.axes.findIndex((axis) => axis.name === "t");
    const numbers = decoded(data.numbers, Float32Array);
    this.cores = new Map(
      data.cores.map(([component, offset, ...sizes]) => [
        component, {
          sizes,
          values: Float64Array.from(
            numbers.subarray(offset, offset + sizes.reduce((a, b) => a * b))
          )
        },
      ]),
    );
    const arrays = new Map(); // windows may share what does not depend on time
    const array = (offset, length, columns) => {
      if (!arrays.has(offset)) arrays.set(
        offset, { id: offset, columns, series: numbers.subarray(offset, offset + length * columns) }
      );
      return arrays.get(offset);
    };
    this.windows = data.windows.map((window) => ({
      low: window.low,
      high: window.high,
      arrays: new Map(
        window.arrays.map(
          ([component, axis, order, ...place]) => [`${component},${axis},${order}`, array(...place)]
        ),
      ),
    }));
    this.tables = new Map(); // factors on the grid of a picture, made when they are first needed
    this.kernels = new Map(); // what is left of the products where axes are held, at one point
    this.mask = data.mask && {
      axes: data.mask.axes.map((name) => data.axes.findIndex((axis) => axis.name === name)),
      points: data.mask.points,
      bits: decoded(data.mask.bits, Uint8Array),
    };
  }

  // The window that an instant belongs to: an edge to the one that it ends. Only a march has
  // several.
  windowAt(t) {
    const slack = 1e-6 * Math.max(1, Math.abs(t));
    const found = this.windows.findIndex((window) => t <= window.high + slack);
    return found < 0 ? this.windows.length - 1 : found;
  }

  windowOf(point) {
    return this.time < 0 ? 0 : this.windowAt(point[this.time]);
  }

  bounds(axis, window) {
    return axis === this.time ? this.windows[window] : this.axes[axis];
  }

  coordinates(axis) {
    const { low, high } = this.axes[axis];
    return Float64Array.from({ length: GRID }, (_, i) => low + ((high - low) * i) / (GRID - 1));
  }

  array(window, [component, orders], axis) {
    return this.windows[window].arrays.get(`${component},${axis},${orders[axis]}`);
  }

  // The factors of one axis at one coordinate, one per column.
  at(window, term, axis, coordinate) {
    const { series, columns } = this.array(window, term, axis);
    const { low, high } = this.bounds(axis, window);
    const s = (2 * (coordinate - low)) / (high - low) - 1;
    const out = new Float64Array(columns);
    let before = 1; // T₀, T₁, T₂ … by their recurrence
    let now = s;
    for (let k = 0, at = 0; at < series.length; k += 1, at += columns) {
      let value = 1;
      if (k === 1) value = s;
      if (k > 1) {
        value = 2 * s * now - before;
        before = now;
        now = value;
      }
      for (let j = 0; j < columns; j += 1) out[j] += value * series[at + j];
    }
    return out;
  }

  // The same on the grid of a picture, by row. Along time only the rows of the window are there.
  grid(window, term, axis) {
    const { id } = this.array(window, term, axis);
    if (!this.tables.has(id)) {
      const rows = Array.from(this.coordinates(axis), (c) =>
        (
          axis !== this.time || this.windowAt(c) === window ? this.at(window, term, axis, c) : null
        ));
      this.tables.set(id, rows);
    }
    return this.tables.get(id);
  }

  // A term with no axis held yet. Of a plain sum: a number for each product, however many axes are
  // left. Of a core: the core of the axes
  // that are left.
  whole(window, term) {
    const { sizes, values } = this.cores.get(term[0]) ?? {};
    if (!sizes) return { values: new Float64Array(this.array(window, term, 0).columns).fill(1) };
    return { axes: this.axes.map((_, i) => i), sizes, values };
  }

  // The same at one coordinate of an axis, by the factors there.
  narrowed({ axes, sizes, values }, axis, factors) {
    if (!sizes) {
      const products = new Float64Array(values.length);
      for (let j = 0; j < values.length; j += 1) products[j] = values[j] * factors[j];
      return { values: products };
    }
    const place = axes.indexOf(axis);
    const left = sizes.filter((_, i) => i !== place);
    const inner = sizes.slice(place + 1).reduce((a, b) => a * b, 1);
    const sums = new Float64Array(left.reduce((a, b) => a * b, 1));
    for (let to = 0, from = 0; to < sums.length; to += inner) {
      for (let j = 0; j < factors.length; j += 1) {
        const factor = factors[j];
        for (let k = 0; k < inner; k += 1, from += 1) sums[to + k] += factor * values[from];
      }
    }
    return { axes: axes.filter((other) => other !== axis), sizes: left, values: sums };
  }

  // What is left of a term where some axes are held, times its coefficient. At the same point it is
  // made once, also for windows that have
  // all it is made of in common.
  kernel(window, term, point, held) {
    const key = `${term} ${held.map((axis) => this.array(window, term, axis).id)}`;
    if (this.kernels.at !== `${point}`) this.kernels = Object.assign(new Map(), { at: `${point}` });
    if (!this.kernels.has(key)) {
      let found = this.whole(window, term);
      for (const axis of held) found = this.narrowed(
        found, axis, this.at(window, term, axis, point[axis])
      );
      this.kernels.set(key, { ...found, values: found.values.map((value) => value * term[2]) });
    }
    return this.kernels.get(key);
  }

  // The value at a point, one coordinate per axis; NaN outside the shape.
  value(output, point) {
    if (!this.inside(point)) return NaN;
    if (output.steps) {
      const inputs = output.inputs.map(
        (input) => (input.terms ? this.value(input, point) : point[input.axis])
      );
      return combine(output, inputs, new Float64Array(1))[0];
    }
    const all = this.axes.map((_, axis) => axis);
    const window = this.windowOf(point);
    return output.terms.reduce(
      (sum, term) => this.kernel(window, term, point, all).values.reduce((a, b) => a + b, sum),
      output.constant
    );
  }

  // The values along one axis through a point.
  line(output, axis, point) {
    const out = new Float64Array(GRID);
    const moved = [...point];
    const along = this.coordinates(axis);
    if (output.steps) {
      const coordinate = (i) => (i === axis ? along : point[i]);
      combine(
        output,
        output.inputs.map(
          (input) => (input.terms ? this.line(input, axis, point) : coordinate(input.axis))
        ),
        out
      );
      return out.map((value, i) => {
        moved[axis] = along[i];
        return this.inside(moved) ? value : NaN;
      });
    }
    const others = this.axes.map((_, i) => i).filter((i) => i !== axis);
    const needed = axis === this.time ? this.windows.map((_, i) => i) : [this.windowOf(point)];
    for (const window of needed) {
      const terms = output.terms.map(
        (term) => [this.kernel(window, term, point, others).values, this.grid(window, term, axis)]
      );
      for (let i = 0; i < GRID; i += 1) {
        if (axis === this.time && this.windowAt(along[i]) !== window) continue;
        let sum = output.constant;
        for (const [values, rows] of terms) for (
          let j = 0; j < values.length; j += 1
        ) sum += values[j] * rows[i][j];
        moved[axis] = along[i];
        out[i] = this.inside(moved) ? sum : NaN;
      }
    }
    return out;
  }

  // All values over two axes, GRID × GRID: out[i * GRID + j] is at the i-th coordinate of `across`,
  // the j-th of `up`.
  slice(output, across, up, point, out) {
    if (output.steps) {
      const coordinate = (axis) => {
        if (axis !== across && axis !== up) return point[axis];
        const along = this.coordinates(axis);
        return Float64Array.from(
          { length: out.length }, (_, n) => along[axis === across ? Math.floor(n / GRID) : n % GRID]
        );
      };
      const values = (input) => this.slice(input, across, up, point, new Float32Array(out.length));
      combine(
        output,
        output.inputs.map((input) => (input.terms ? values(input) : coordinate(input.axis))),
        out
      );
      this.hide(across, up, point, out);
      return out;
    }
    if (up === this.time && this.windows.length > 1) {
      transpose(this.slice(output, up, across, point, new Float32Array(out.length)), out);
      return out;
    }
    const held = this.axes.map((_, i) => i).filter((i) => i !== across && i !== up);
    const several = across === this.time && this.windows.length > 1;
    const times = several ? this.coordinates(across) : null;
    for (const window of several ? this.windows.map((_, i) => i) : [this.windowOf(point)]) {
      const first = several ? times.findIndex((t) => this.windowAt(t) === window) : 0;
      if (first < 0) continue; // a window shorter than a pixel
      const rows = several ? times.filter((t) => this.windowAt(t) === window).length : GRID;
      const right = this.right(window, output, up);
      const left = this.left(window, output, across, point, held, first, rows, right.columns);
      multiply(left, right.tiles, rows, right.columns, output.constant, out.subarray(first * GRID));
    }
    this.hide(across, up, point, out);
    return out;
  }

  // All values over three axes, n × n × n, the last of them the fastest. A few dozen points along
  // each: no tiles are needed.
  volume(output, axes, point, n) {
    const places = axes.map((axis) => {
      const { low, high } = this.axes[axis];
      return Float64Array.from({ length: n }, (_, i) => low + ((high - low) * i) / (n - 1));
    });
    const strides = [n * n, n, 1];
    const out = new Float32Array(n ** 3);
    if (output.steps) {
      const coordinate = (axis) => {
        const at = axes.indexOf(axis);
        return at < 0
          ? point[axis]
          : Float64Array.from(out, (_, i) => places[at][Math.floor(i / strides[at]) % n]);
      };
      const values = (input) => this.volume(input, axes, point, n);
      combine(
        output,
        output.inputs.map((input) => (input.terms ? values(input) : coordinate(input.axis))),
        out
      );
    } else this.fill(output, axes, places, strides, point, out);
    if (this.mask) {
      const moved = [...point];
      for (let i = 0; i < out.length; i += 1) {
        axes.forEach((axis, at) => (moved[axis] = places[at][Math.floor(i / strides[at]) % n]));
        if (!this.inside(moved)) out[i] = NaN;
      }
    }
    return out;
  }

  fill(output, axes, places, strides, point, out) {
    // windows change along the first
    const [a, b, c] = [0, 1, 2].sort((i, j) => (axes[j] === this.time) - (axes[i] === this.time));
    const held = this.axes.map((_, i) => i).filter((i) => !axes.includes(i));
    out.fill(output.constant);
    for (const term of output.terms) {
      const tables = new Map(); // by array: windows may share it
      const rows = (window, at) => {
        const { id } = this.array(window, term, axes[at]);
        if (!tables.has(id)) tables.set(
          id, Array.from(places[at], (x) => this.at(window, term, axes[at], x))
        );
        return tables.get(id);
      };
      places[a].forEach((x, i) => {
        const window = axes[a] === this.time ? this.windowAt(x) : this.windowOf(point);
        const first = this.narrowed(
          this.kernel(window, term, point, held), axes[a], rows(window, a)[i]
        );
        rows(window, b).forEach((factors, j) => {
          const { values } = this.narrowed(first, axes[b], factors);
          rows(window, c).forEach((last, k) => {
            let sum = 0;
            for (let r = 0; r < values.length; r += 1) sum += values[r] * last[r];
            out[i * strides[a] + j * strides[b] + k * strides[c]] += sum;
          });
        });
      });
    }
  }

  // The two sides of a picture, in groups of four rows, as `multiply` reads them: on the right the
  // factors of all terms along one axis,
  // which are kept; on the left what they are multiplied by, along the other.
  right(window, output, axis) {
    const key = `right ${output.terms.map((term) => this.array(window, term, axis).id)}`;
    if (!this.tables.has(key)) {
      const columns = output.terms.reduce(
        (sum, term) => sum + this.array(window, term, axis).columns, 0
      );
      const tiles = new Float64Array(GRID * columns);
      let first = 0;
      for (const term of output.terms) {
        this.grid(window, term, axis).forEach((row, i) => tiled(tiles, row, i, columns, first));
        first += this.array(window, term, axis).columns;
      }
      this.tables.set(key, { tiles, columns });
    }
    return this.tables.get(key);
  }

  left(window, output, axis, point, held, start, rows, columns) {
    const size = Math.ceil(rows / 4) * 4 * columns;
    if (this.scratch?.length !== size) this.scratch = new Float64Array(size);
    let first = 0;
    for (const term of output.terms) {
      const kernel = this.kernel(window, term, point, held);
      const grid = this.grid(window, term, axis);
      let width = 0;
      for (let i = 0; i < rows; i += 1) {
        const { values } = this.narrowed(kernel, axis, grid[start + i]);
        tiled(this.scratch, values, i, columns, first);
        width = values.length;
      }
      first += width;
    }
    return this.scratch;
  }

  inside(point) {
    if (!this.mask) return true;
    let at = 0;
    for (const axis of this.mask.axes) at = at * this.mask.points + this.cell(axis, point[axis]);
    return Boolean((this.mask.bits[at >> 3] >> (at & 7)) & 1);
  }

  cell(axis, coordinate) {
    const { low, high } = this.axes[axis];
    return Math.round(((coordinate - low) / (high - low)) * (this.mask.points - 1));
  }

  // Nothing is said about what is outside the shape.
  hide(across, up, point, out) {
    if (!this.mask) return;
    const moved = [...point];
    const xs = this.coordinates(across);
    const ys = this.coordinates(up);
    for (let i = 0; i < GRID; i += 1) {
      moved[across] = xs[i];
      for (let j = 0; j < GRID; j += 1) {
        moved[up] = ys[j];
        if (!this.inside(moved)) out[i * GRID + j] = NaN;
      }
    }
  }
}

// One row among groups of four.
function tiled(out, row, i, columns, first) {
  const to = (i >> 2) * columns * 4 + first * 4 + (i & 3);
  for (let j = 0; j < row.length; j += 1) out[to + 4 * j] = row[j];
}

// out = left · rightᵀ + constant. Four rows by four at a time: sixteen sums live in registers, so
// that eight numbers read
// serve sixteen products. This is what makes a picture of rank 128 take a few milliseconds without
// a GPU.
function multiply(left, right, rows, columns, constant, out) {
  const block = 4 * columns;
  for (let i = 0; i < rows; i += 4) {
    for (let j = 0; j < GRID; j += 4) {
      let s00 = constant, s01 = constant, s02 = constant, s03 = constant;
      let s10 = constant, s11 = constant, s12 = constant, s13 = constant;
      let s20 = constant, s21 = constant, s22 = constant, s23 = constant;
      let s30 = constant, s31 = constant, s32 = constant, s33 = constant;
      let p = (i >> 2) * block;
      let q = (j >> 2) * block;
      for (const end = p + block; p < end; p += 4, q += 4) {
        const a0 = left[p], a1 = left[p + 1], a2 = left[p + 2], a3 = left[p + 3];
        const b0 = right[q], b1 = right[q + 1], b2 = right[q + 2], b3 = right[q + 3];
        s00 += a0 * b0; s01 += a0 * b1; s02 += a0 * b2; s03 += a0 * b3;
        s10 += a1 * b0; s11 += a1 * b1; s12 += a1 * b2; s13 += a1 * b3;
        s20 += a2 * b0; s21 += a2 * b1; s22 += a2 * b2; s23 += a2 * b3;
        s30 += a3 * b0; s31 += a3 * b1; s32 += a3 * b2; s33 += a3 * b3;
      }
      let at = i * GRID + j;
      out[at] = s00; out[at + 1] = s01; out[at + 2] = s02; out[at + 3] = s03;
      if (i + 1 < rows) {
        at += GRID;
        out[at] = s10;
        out[at + 1] = s11;
        out[at + 2] = s12;
        out[at + 3] = s13;
      }
      if (i + 2 < rows) {
        at += GRID;
        out[at] = s20;
        out[at + 1] = s21;
        out[at + 2] = s22;
        out[at + 3] = s23;
      }
      if (i + 3 < rows) {
        at += GRID;
        out[at] = s30;
        out[at + 1] = s31;
        out[at + 2] = s32;
        out[at + 3] = s33;
      }
    }
  }
}

function transpose(from, out) {
  for (
    let i = 0; i < GRID; i += 1
  ) for (let j = 0; j < GRID; j += 1) out[j * GRID + i] = from[i * GRID + j];
}
