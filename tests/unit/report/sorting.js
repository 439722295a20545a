const table = document.querySelector('section[aria-labelledby="links"] table');
const sorted = (column) => {
  table.tHead.rows[0].cells[column].querySelector("button").click();
  return [...table.tBodies[0].rows].map((row) => row.cells[column].dataset.value ?? null);
};
const fits = document.documentElement.scrollWidth <= window.innerWidth;
const scrolls = [...document.querySelectorAll(".sheet, .scrolls")].map((box) => [
  box.scrollHeight > box.clientHeight + 1 || box.scrollWidth > box.clientWidth + 1,
  !box.nextElementSibling.hidden && box.nextElementSibling.textContent.startsWith("Scroll "),
]);
[fits, scrolls, ...[7, 7, 2, 8, 8].map(sorted)]
