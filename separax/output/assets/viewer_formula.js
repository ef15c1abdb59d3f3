"use strict";
// What is computed point by point from other values: the steps of a formula, under JAX's names for
// them.

const OPERATIONS = {
  add: (a, b) => a + b, sub: (a, b) => a - b, mul: (a, b) => a * b, div: (a, b) => a / b,
  neg: (a) => -a, pow: (a, b) => a ** b, abs: Math.abs, sign: Math.sign, square: (a) => a * a,
  sqrt: Math.sqrt, rsqrt: (a) => 1 / Math.sqrt(a), cbrt: Math.cbrt, exp: Math.exp,
  exp2: (a) => 2 ** a, expm1: Math.expm1, log: Math.log, log1p: Math.log1p,
  logistic: (a) => 1 / (1 + Math.exp(-a)), sin: Math.sin, cos: Math.cos, tan: Math.tan,
  asin: Math.asin, acos: Math.acos, atan: Math.atan, atan2: Math.atan2, sinh: Math.sinh,
  cosh: Math.cosh, tanh: Math.tanh, floor: Math.floor, ceil: Math.ceil,
  max: (a, b) => Math.max(a, b), min: (a, b) => Math.min(a, b),
  clamp: (low, a, high) => Math.min(Math.max(a, low), high),
  lt: (a, b) => a < b, le: (a, b) => a <= b, gt: (a, b) => a > b, ge: (a, b) => a >= b,
  eq: (a, b) => a === b, ne: (a, b) => a !== b,
  and: (a, b) => Boolean(a && b), or: (a, b) => Boolean(a || b), not: (a) => !a,
  select_n: (which, no, yes) => (which ? yes : no),
};

// Fills `out` with a formula's values from those of its inputs: arrays of the same length, or
// numbers.
function combine({ steps, result }, inputs, out) {
  const first = inputs.length;
  const places = new Float64Array(first + steps.length);
  const todo = [];
  steps.forEach(([name, a, b, c], i) => {
    if (name === "constant") places[first + i] = a;
    else todo.push({ operation: OPERATIONS[name], to: first + i, a, b: b ?? a, c: c ?? a });
  });
  for (let n = 0; n < out.length; n += 1) {
    for (let i = 0; i < first; i += 1) places[i] = typeof inputs[i] === "number"
      ? inputs[i]
      : inputs[i][n];
    for (
      const { operation, to, a, b, c } of todo
    ) places[to] = operation(places[a], places[b], places[c]);
    out[n] = places[result];
  }
  return out;
}
