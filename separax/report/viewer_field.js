"use strict";
// A field from its factors: Σ coefficient · Π factor(axis), where every factor is a Chebyshev series along its axis; and what
// is a formula of such fields. Nothing here knows about the page.

const GRID = 256; // points of a picture along each shown axis

function decoded(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Kind(bytes.buffer);
}

class Factors {
  constructor(data) {
    this.axes = data.axes;
    this.outputs = data.outputs;
    this.rank = data.rank;
    this.time = data.axes.findIndex((axis) => axis.name === "t");
    const numbers = decoded(data.numbers, Float32Array);
    this.windows = data.windows.map((window) => ({
      low: window.low,
      high: window.high,
      grids: new Map(), // factors on the grid of a picture, made when they are first needed
      series: new Map(
        window.arrays.map(([component, axis, order, offset, length]) => [
          `${component},${axis},${order}`,
          numbers.subarray(offset, offset + length * data.rank),
        ]),
      ),
    }));
    this.mask = data.mask && {
      axes: data.mask.axes.map((name) => data.axes.findIndex((axis) => axis.name === name)),
      points: data.mask.points,
      bits: decoded(data.mask.bits, Uint8Array),
    };
  }

  // The window that an instant belongs to: an edge to the one that it ends. Only a march has several.
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

  // The factors of one axis at one coordinate: an array of the rank's length.
  at(window, component, axis, order, coordinate) {
    const series = this.windows[window].series.get(`${component},${axis},${order}`);
    const { low, high } = this.bounds(axis, window);
    const s = (2 * (coordinate - low)) / (high - low) - 1;
    const { rank } = this;
    const out = new Float64Array(rank);
    let before = 1; // T₀, T₁, T₂ … by their recurrence
    let now = s;
    for (let k = 0, at = 0; at < series.length; k += 1, at += rank) {
      let value = 1;
      if (k === 1) value = s;
      if (k > 1) {
        value = 2 * s * now - before;
        before = now;
        now = value;
      }
      for (let j = 0; j < rank; j += 1) out[j] += value * series[at + j];
    }
    return out;
  }

  // The same on the grid of a picture: rows of rank numbers. Along time only the rows of the window are meant.
  grid(window, component, axis, order) {
    const key = `${component},${axis},${order}`;
    const { grids } = this.windows[window];
    if (!grids.has(key)) {
      const out = new Float64Array(GRID * this.rank);
      this.coordinates(axis).forEach((c, i) => {
        if (axis !== this.time || this.windowAt(c) === window) out.set(this.at(window, component, axis, order, c), i * this.rank);
      });
      grids.set(key, out);
    }
    return grids.get(key);
  }

  // What stands before each product when some axes are held: coefficient · Π factor(axis) over them.
  weights(window, output, point, held) {
    const { rank } = this;
    const out = new Float64Array(output.terms.length * rank);
    output.terms.forEach(([component, orders, coefficient], i) => {
      out.fill(coefficient, i * rank, (i + 1) * rank);
      for (const axis of held) {
        const values = this.at(window, component, axis, orders[axis], point[axis]);
        for (let j = 0; j < rank; j += 1) out[i * rank + j] *= values[j];
      }
    });
    return out;
  }

  // The value at a point, one coordinate per axis; NaN outside the shape.
  value(output, point) {
    if (!this.inside(point)) return NaN;
    if (output.steps) {
      const inputs = output.inputs.map((input) => (input.terms ? this.value(input, point) : point[input.axis]));
      return combine(output, inputs, new Float64Array(1))[0];
    }
    const all = this.axes.map((_, axis) => axis);
    return this.weights(this.windowOf(point), output, point, all).reduce((sum, w) => sum + w, output.constant);
  }

  // The values along one axis through a point.
  line(output, axis, point) {
    const out = new Float64Array(GRID);
    const moved = [...point];
    const along = this.coordinates(axis);
    if (output.steps) {
      const coordinate = (i) => (i === axis ? along : point[i]);
      combine(output, output.inputs.map((input) => (input.terms ? this.line(input, axis, point) : coordinate(input.axis))), out);
      return out.map((value, i) => {
        moved[axis] = along[i];
        return this.inside(moved) ? value : NaN;
      });
    }
    const others = this.axes.map((_, i) => i).filter((i) => i !== axis);
    const needed = axis === this.time ? this.windows.map((_, i) => i) : [this.windowOf(point)];
    for (const window of needed) {
      const weights = this.weights(window, output, point, others);
      const grids = output.terms.map(([component, orders]) => this.grid(window, component, axis, orders[axis]));
      for (let i = 0; i < GRID; i += 1) {
        if (axis === this.time && this.windowAt(along[i]) !== window) continue;
        let sum = output.constant;
        grids.forEach((grid, term) => {
          for (let j = 0; j < this.rank; j += 1) sum += weights[term * this.rank + j] * grid[i * this.rank + j];
        });
        moved[axis] = along[i];
        out[i] = this.inside(moved) ? sum : NaN;
      }
    }
    return out;
  }

  // All values over two axes, GRID × GRID: out[i * GRID + j] is at the i-th coordinate of `across`, the j-th of `up`.
  slice(output, across, up, point, out) {
    if (output.steps) {
      const coordinate = (axis) => {
        if (axis !== across && axis !== up) return point[axis];
        const along = this.coordinates(axis);
        return Float64Array.from({ length: out.length }, (_, n) => along[axis === across ? Math.floor(n / GRID) : n % GRID]);
      };
      const values = (input) => this.slice(input, across, up, point, new Float32Array(out.length));
      combine(output, output.inputs.map((input) => (input.terms ? values(input) : coordinate(input.axis))), out);
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
      const weights = this.weights(window, output, point, held);
      const left = this.tiles(window, output, across, weights, first, rows);
      const right = this.tiles(window, output, up, null, 0, GRID);
      multiply(left, right, rows, output.terms.length * this.rank, output.constant, out.subarray(first * GRID));
    }
    this.hide(across, up, point, out);
    return out;
  }

  // All values over three axes, n × n × n, the last of them the fastest. A few dozen points along each: no tiles are needed.
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
        return at < 0 ? point[axis] : Float64Array.from(out, (_, i) => places[at][Math.floor(i / strides[at]) % n]);
      };
      const values = (input) => this.volume(input, axes, point, n);
      combine(output, output.inputs.map((input) => (input.terms ? values(input) : coordinate(input.axis))), out);
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
    const [a, b, c] = [0, 1, 2].sort((i, j) => (axes[j] === this.time) - (axes[i] === this.time)); // windows change along the first
    const held = this.axes.map((_, i) => i).filter((i) => !axes.includes(i));
    const columns = output.terms.length * this.rank;
    const rows = (window, at) => {
      const table = new Float64Array(places[at].length * columns);
      places[at].forEach((x, i) => output.terms.forEach(([component, orders], term) =>
        table.set(this.at(window, component, axes[at], orders[axes[at]], x), i * columns + term * this.rank)));
      return table;
    };
    const tables = new Map(); // by window
    const [first, both] = [new Float64Array(columns), new Float64Array(columns)];
    places[a].forEach((x, i) => {
      const window = axes[a] === this.time ? this.windowAt(x) : this.windowOf(point);
      if (!tables.has(window)) {
        tables.set(window, [this.weights(window, output, point, held), ...[a, b, c].map((at) => rows(window, at))]);
      }
      const [weights, as, bs, cs] = tables.get(window);
      for (let r = 0; r < columns; r += 1) first[r] = weights[r] * as[i * columns + r];
      for (let j = 0; j < places[b].length; j += 1) {
        for (let r = 0; r < columns; r += 1) both[r] = first[r] * bs[j * columns + r];
        for (let k = 0, from = 0; k < places[c].length; k += 1, from += columns) {
          let sum = output.constant;
          for (let r = 0; r < columns; r += 1) sum += both[r] * cs[from + r];
          out[i * strides[a] + j * strides[b] + k * strides[c]] = sum;
        }
      }
    });
  }

  // The factors of all terms in groups of four rows, as `multiply` reads them; without weights they are kept.
  tiles(window, output, axis, weights, first, rows) {
    const { rank } = this;
    const key = `tiles ${output.name} ${axis}`;
    const kept = this.windows[window].grids;
    if (!weights && kept.has(key)) return kept.get(key);
    const columns = output.terms.length * rank;
    const size = Math.ceil(rows / 4) * 4 * columns;
    const out = !weights || this.scratch?.length !== size ? new Float64Array(size) : this.scratch;
    if (weights) this.scratch = out;
    output.terms.forEach(([component, orders], term) => {
      const grid = this.grid(window, component, axis, orders[axis]);
      for (let i = 0; i < rows; i += 1) {
        const to = (i >> 2) * columns * 4 + term * rank * 4 + (i & 3);
        const from = (first + i) * rank;
        if (weights) for (let j = 0; j < rank; j += 1) out[to + 4 * j] = grid[from + j] * weights[term * rank + j];
        else for (let j = 0; j < rank; j += 1) out[to + 4 * j] = grid[from + j];
      }
    });
    if (!weights) kept.set(key, out);
    return out;
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

// out = left · rightᵀ + constant. Four rows by four at a time: sixteen sums live in registers, so that eight numbers read
// serve sixteen products. This is what makes a picture of rank 128 take a few milliseconds without a GPU.
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
      if (i + 1 < rows) { at += GRID; out[at] = s10; out[at + 1] = s11; out[at + 2] = s12; out[at + 3] = s13; }
      if (i + 2 < rows) { at += GRID; out[at] = s20; out[at + 1] = s21; out[at + 2] = s22; out[at + 3] = s23; }
      if (i + 3 < rows) { at += GRID; out[at] = s30; out[at + 1] = s31; out[at + 2] = s32; out[at + 3] = s33; }
    }
  }
}

function transpose(from, out) {
  for (let i = 0; i < GRID; i += 1) for (let j = 0; j < GRID; j += 1) out[j * GRID + i] = from[i * GRID + j];
}
